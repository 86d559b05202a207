/* ops/ml/labels.c: what classifiers of ai.onnx.ml share when they run: the named transform of scores, and how one score
 * of two classes becomes two. The rules are those of ONNX Runtime, which models were converted for; the standard says
 * less. */
#include "ops/ml/ml.h"

#include <string.h>

nc_code nc_ml_post(nc_prep *p, nck_post *out) {
    static const char *const words[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
    const char *word = nc_attr_str(p->node, "post_transform");
    for (int k = 0; k < 5; k++)
        if (strcmp(word, words[k]) == 0) {
            *out = (nck_post)k;
            return NC_OK;
        }
    NC_FAIL(p->w, NC_E_BAD_GRAPH, "post_transform is '%s', expected NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT",
            word);
}

bool nc_ml_no_strings(const nc_node *n, const char **why) {
    *why = "labels are strings";
    return n->out[0] == NULL || n->out[0]->type == NULL || n->out[0]->type->elem != NC_STRING;
}

/* The first of two scores is what the second leaves to 1, or its opposite. */
static void both(nck_post post, nc_second second, double *s) {
    double x = s[0];
    bool logistic = post == NCK_POST_LOGISTIC, opposite = second == NC_SECOND_NEGATIVE;
    s[1] = logistic ? nck_post_logistic(x) : x;
    s[0] = logistic && opposite ? nck_post_logistic(-x) : opposite ? -x : 1 - s[1];
}

void nc_ml_write_scores(nck_post post, nc_second second, int64_t n, double *scores, float *z, int64_t n_z) {
    if (n == 1 && n_z == 2 && second != NC_SECOND_NONE && post != NCK_POST_PROBIT) {
        both(post, second, scores);
        n = 2;
    } else if (n == 1) {
        if (post == NCK_POST_PROBIT) scores[0] = nck_post_probit(scores[0]);
    } else {
        nck_post_row(post, n, scores);
    }
    for (int64_t k = 0; k < n_z; k++) z[k] = k < n ? (float)scores[k] : 0;
}
