/* tools/nacre/quantize.c: nacre quantize MODEL -o OUT: weights and activations as codes of few bits.
 *
 * The quantizers are Python (nacre.quantization), on the package onnx: this command checks its arguments and hands them
 * to python3. */
#include "cli.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: nacre quantize MODEL -o OUT.onnx [options]\n"
    "\n"
    "Writes a model whose weights are codes of few bits. Without data its activations become codes in each run, by "
    "the\n"
    "range they have there (dynamic); with --data their ranges are found now (static); with --bits weights alone "
    "become\n"
    "codes, in blocks. Calls nacre.quantization through python3 (or $NACRE_PYTHON) with the packages nacre and onnx.\n"
    "\n"
    "  -o OUT.onnx          where the model goes\n"
    "  --data FILE.npz      arrays by the names of the inputs, examples along their first axis; may be given several\n"
    "                       times\n"
    "  --batch N            examples in a run of calibration (default: what the model fixes, else 1)\n"
    "  --method NAME        range from what was seen: minmax (default), entropy, percentile\n"
    "  --form NAME          static: qdq (default: the model's own operators between pairs) or operators\n"
    "  --activations TYPE   static: uint8 (default), int8, uint16, int16\n"
    "  --weights TYPE       int8 (default), uint8; static in form qdq: int16, uint16, int4, uint4 too\n"
    "  --per-channel        a scale for each channel of a weight\n"
    "  --reduce-range       7 bits for weights, where a processor's sums of 8-bit products saturate\n"
    "  --bits N             weights of MatMul alone, 2, 4 or 8 bits in blocks\n"
    "  --block N            elements of a block (default 32)\n"
    "  --symmetric          blocks without zero points\n"
    "  --search NAME        how blocks are found: default (round), k_quant (least squares), hqq (half-quadratic),\n"
    "                       gptq (from --data: what a row of weights loses is made good in the rows behind it)\n"
    "  --op NAME            quantize only this operator; may be given several times\n"
    "  --exclude NODE       leave this node as it is; may be given several times\n"
    "  --prepare            fold constants and write the types of all values first\n"
    "  --external           weights in a file beside the model\n"
    "\n"
    "example: nacre quantize resnet.onnx --data examples.npz --per-channel -o resnet.int8.onnx\n"
    "exit codes: 0 done, 1 the model, the data or a file failed, 2 wrong usage\n";

static int hand_over(int argc, char **argv) {
    const char *python = getenv("NACRE_PYTHON");
    if (!python || !*python) python = "python3";
    const char **all = calloc((size_t)argc + 3, sizeof *all);
    if (!all) return cli_fail("out of memory");
    all[0] = python, all[1] = "-m", all[2] = "nacre.quantization";
    for (int i = 1; i < argc; i++) all[2 + i] = argv[i];
    fflush(NULL);
    execvp(python, (char *const *)(uintptr_t)all);
    free(all);
    return cli_fail("cannot start %s: the quantizers need Python with the packages nacre and onnx", python);
}

int cmd_quantize(int argc, char **argv) {
    const char *model = NULL, *out = NULL, *text[6] = {NULL};
    list data = {.n = 0}, ops = {.n = 0}, excluded = {.n = 0};
    bool flag[5] = {false};
    int batch = 1, bits = 0, block = 32;
    const arg known[] = {{"", ARG_TEXT, &model, 0},
                         {"-o", ARG_TEXT, &out, 0},
                         {"--data", ARG_LIST, &data, 0},
                         {"--batch", ARG_INT, &batch, 1},
                         {"--method", ARG_TEXT, &text[0], 0},
                         {"--form", ARG_TEXT, &text[1], 0},
                         {"--activations", ARG_TEXT, &text[2], 0},
                         {"--weights", ARG_TEXT, &text[3], 0},
                         {"--per-channel", ARG_FLAG, &flag[0], 0},
                         {"--reduce-range", ARG_FLAG, &flag[1], 0},
                         {"--bits", ARG_INT, &bits, 2},
                         {"--block", ARG_INT, &block, 16},
                         {"--symmetric", ARG_FLAG, &flag[2], 0},
                         {"--search", ARG_TEXT, &text[4], 0},
                         {"--op", ARG_LIST, &ops, 0},
                         {"--exclude", ARG_LIST, &excluded, 0},
                         {"--prepare", ARG_FLAG, &flag[3], 0},
                         {"--external", ARG_FLAG, &flag[4], 0},
                         {NULL, ARG_FLAG, NULL, 0}};
    int code = args_parse("quantize", help, argc, argv, known);
    if (code != EXIT_DONE) return code < 0 ? EXIT_DONE : code;
    if (!model) return cli_usage("quantize", "which model?");
    if (!out) return cli_usage("quantize", "-o OUT.onnx says where the model goes");
    bool gptq = text[4] && strcmp(text[4], "gptq") == 0;
    if (bits && data.n && !gptq)
        return cli_usage("quantize", "--bits is about weights alone, --data about activations, or for --search gptq");
    return hand_over(argc, argv);
}
