/* tools/nacre/artifacts.c: nacre artifacts MODEL --loss NAME: the files that training a model needs. */
#include "cli.h"

#include "nacre/nacre_train.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static const char help[] =
    "usage: nacre artifacts MODEL [options]\n"
    "\n"
    "From a forward model makes what training needs: training_model.onnx (forward, loss, gradients, their sums),\n"
    "eval_model.onnx (forward and loss), optimizer_model.onnx (one step over all parameters) and checkpoint (the\n"
    "parameters). Names and order of inputs and outputs are those of onnxruntime.training, whose training API reads\n"
    "the files too when they are made with --standard.\n"
    "\n"
    "  --loss NAME          mse, l1, cross_entropy (labels of int64, classes on axis 1), bce_with_logits; without it\n"
    "                       the model's first output is the loss, and must be one number\n"
    "  --reduction NAME     mean (default) or sum: how the elements' losses become one number\n"
    "  --loss-input NAME    the value that the loss looks at (default: the first output)\n"
    "  --target NAME        the input for what is wanted (default: labels for cross_entropy, else target)\n"
    "  --output NAME        a value that is an output of both models behind the loss; may be given several times\n"
    "  --train PATTERN      initializers that train, by name; '*' stands for any letters, '?' for one; may be given\n"
    "                       several times (default: all of floats with at least one dim)\n"
    "  --freeze PATTERN     initializers that do not train but are kept in the checkpoint; all others stay in the "
    "models\n"
    "  --optimizer NAME     adamw (as PyTorch's), adamw_hf (as Hugging Face's was), sgd, none (default adamw)\n"
    "  --betas B1,B2        of adamw (default 0.9,0.999)\n"
    "  --epsilon E          of adamw (default 1e-6)\n"
    "  --weight-decay W     of adamw and sgd (default 0)\n"
    "  --momentum M         of sgd, as PyTorch's (default 0), with --dampening D (default 0) and --nesterov\n"
    "  --no-bias-correction of adamw\n"
    "  --clip-norm N        scale all gradients by one factor so that their common L2 norm is at most N\n"
    "  -o FOLDER            where the files go; it is made if it is not there (default: the current one)\n"
    "  --prefix TEXT        before the files' names\n"
    "  --format NAME        of the checkpoint: ort, onnxruntime's own (default), or safetensors\n"
    "  --ort                each model in onnxruntime's own format too: training_model.ort and so on\n"
    "  --nominal            nominal_checkpoint too: names and types of parameters, without their values\n"
    "  --standard           gradients in ONNX's own operators; slower here, but onnxruntime runs them. A model of\n"
    "                       opset 13 to 17 is raised to the opset that they need\n"
    "  --compute NAME       f16 or bf16: products of the training model take operands in half precision, with a loss\n"
    "                       scale for f16 (default f32)\n"
    "  --plugin FILE.so     load custom operators\n"
    "\n"
    "example: nacre artifacts model.onnx --loss cross_entropy --freeze 'encoder.*' -o artifacts\n"
    "exit codes: 0 done, 1 the model or a file failed, 2 wrong usage\n";

typedef struct wishes {
    nacre_artifacts what;
    list train, freeze, outputs;
    const char *betas, *optimizer;
    double epsilon, weight_decay, clip, momentum, dampening;
    bool nesterov, plain_bias, nominal, standard, ort;
} wishes;

static int read_numbers(wishes *w) {
    char more;
    nacre_artifacts *a = &w->what;
    if (w->betas && sscanf(w->betas, "%f,%f%c", &a->beta1, &a->beta2, &more) != 2)
        return cli_usage("artifacts", "--betas: expected two numbers as 0.9,0.999, got %s", w->betas);
    a->epsilon = (float)w->epsilon, a->weight_decay = (float)w->weight_decay, a->max_norm = (float)w->clip;
    a->momentum = (float)w->momentum, a->dampening = (float)w->dampening, a->nesterov = w->nesterov;
    a->no_bias_correction = w->plain_bias, a->nominal = w->nominal, a->standard = w->standard;
    a->ort_format = w->ort;
    a->trainable = w->train.v, a->n_trainable = (size_t)w->train.n;
    a->frozen = w->freeze.v, a->n_frozen = (size_t)w->freeze.n;
    a->outputs = w->outputs.v, a->n_outputs = (size_t)w->outputs.n;
    a->optimizer = strcmp(w->optimizer, "none") == 0 ? NULL : w->optimizer;
    return EXIT_DONE;
}

static int make(const nacre_model *m, const nacre_artifacts *a) {
    nacre_error err;
    if (a->folder && mkdir(a->folder, 0777) != 0 && errno != EEXIST)
        return cli_fail("cannot make the folder %s: %s", a->folder, strerror(errno));
    if (nacre_artifacts_write(m, a, &err) != NACRE_OK) return cli_error(&err);
    printf("training_model.onnx, eval_model.onnx, %scheckpoint%s are in %s\n",
           a->optimizer ? "optimizer_model.onnx, " : "", a->nominal ? ", nominal_checkpoint" : "",
           a->folder ? a->folder : "the current folder");
    return EXIT_DONE;
}

int cmd_artifacts(int argc, char **argv) {
    common c = {0};
    wishes w = {.what = {.size = sizeof w.what}, .optimizer = "adamw"};
    const arg known[] = {{"", ARG_TEXT, &c.model, 0},
                         {"--loss", ARG_TEXT, &w.what.loss, 0},
                         {"--reduction", ARG_TEXT, &w.what.reduction, 0},
                         {"--loss-input", ARG_TEXT, &w.what.loss_input, 0},
                         {"--target", ARG_TEXT, &w.what.target, 0},
                         {"--output", ARG_LIST, &w.outputs, 0},
                         {"--train", ARG_LIST, &w.train, 0},
                         {"--freeze", ARG_LIST, &w.freeze, 0},
                         {"--optimizer", ARG_TEXT, &w.optimizer, 0},
                         {"--betas", ARG_TEXT, &w.betas, 0},
                         {"--epsilon", ARG_NUMBER, &w.epsilon, 0},
                         {"--weight-decay", ARG_NUMBER, &w.weight_decay, 0},
                         {"--momentum", ARG_NUMBER, &w.momentum, 0},
                         {"--dampening", ARG_NUMBER, &w.dampening, 0},
                         {"--nesterov", ARG_FLAG, &w.nesterov, 0},
                         {"--no-bias-correction", ARG_FLAG, &w.plain_bias, 0},
                         {"--clip-norm", ARG_NUMBER, &w.clip, 0},
                         {"-o", ARG_TEXT, &w.what.folder, 0},
                         {"--prefix", ARG_TEXT, &w.what.prefix, 0},
                         {"--format", ARG_TEXT, &w.what.format, 0},
                         {"--nominal", ARG_FLAG, &w.nominal, 0},
                         {"--ort", ARG_FLAG, &w.ort, 0},
                         {"--standard", ARG_FLAG, &w.standard, 0},
                         {"--compute", ARG_TEXT, &w.what.compute, 0},
                         {"--plugin", ARG_LIST, &c.plugins, 0},
                         {NULL, ARG_FLAG, NULL, 0}};
    int code = args_parse("artifacts", help, argc, argv, known);
    if (code != EXIT_DONE) return code < 0 ? EXIT_DONE : code;
    if (!c.model) return cli_usage("artifacts", "which model?");
    if ((code = read_numbers(&w)) != EXIT_DONE) return code;
    nacre_env *env;
    nacre_model *m;
    if ((code = open_env("artifacts", &c, &env)) != EXIT_DONE) return code;
    code = open_model("artifacts", &c, env, &m);
    if (code == EXIT_DONE) {
        code = make(m, &w.what);
        nacre_model_release(m);
    }
    nacre_env_release(env);
    return code;
}
