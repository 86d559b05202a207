/* ops/attention/attention_cpu.c: CPU bindings of the attention family. Kernels take f32, Attention f64 too; float16 and
 * bfloat16 go through f32 (ops/widen.h). */
#include "ops/attention/attention_cpu.h"

#include "ops/card.h"
#include "ops/widen.h"

#define HALF(name, workspace_fn) NC_WIDENED(name##_half, NC_WIDEN_HALF, nc_##name##_run, workspace_fn)
HALF(attention, nc_attention_workspace)
HALF(attention_chain, nc_attention_workspace)
HALF(attention_grad, nc_attention_grad_workspace)
HALF(rotary, NULL)
HALF(linear_attention, nc_linear_attention_workspace)
HALF(causal_conv, NULL)
HALF(cached, nc_cached_workspace)

/* One row serves f32 and halves, alone or mixed: what is wide already is used as it is. */
#define ROW(op_name, name) \
    { .op = op_name, .prepare = nc_##name##_prepare, .workspace = name##_half_workspace, .run = name##_half_run }
const nc_binding nc_attention_cpu[] = {{.op = "Attention",
                                        .fits = nc_attention_fits,
                                        .prepare = nc_attention_prepare,
                                        .workspace = attention_half_workspace,
                                        .run = attention_half_run},
                                       {.op = "AttentionChain",
                                        .domain = "nacre",
                                        .types = NC_BIT(NC_FLOAT),
                                        .prepare = nc_attention_chain_prepare,
                                        .workspace = attention_chain_half_workspace,
                                        .run = attention_chain_half_run},
                                       {.op = "AttentionGrad",
                                        .domain = "nacre",
                                        .prepare = nc_attention_grad_prepare,
                                        .workspace = attention_grad_half_workspace,
                                        .run = attention_grad_half_run},
                                       ROW("RotaryEmbedding", rotary),
                                       ROW("LinearAttention", linear_attention),
                                       ROW("CausalConvWithState", causal_conv),
                                       {.op = "TensorScatter",
                                        .types = (T_TENSOR_ALL & ~T_STRING) | T_F8,
                                        .prepare = nc_tensor_scatter_prepare,
                                        .run = nc_tensor_scatter_run},
                                       {.op = "CachedAttention",
                                        .domain = "nacre",
                                        .prepare = nc_cached_prepare,
                                        .workspace = cached_half_workspace,
                                        .run = cached_half_run},
                                       {0}};
