/* transform/infer/resizes.c: a Conv of one tap behind a Resize that enlarges goes in front of it, where it has fewer
 * places to work on. Both are linear, one within a place, the other within a channel, and the shares that a Resize
 * gives the places it reads add up to 1: so they may change order, a bias too.
 *
 * Behind a Concat of channels the Conv is taken apart: Conv(Concat(Resize(a), b), W) + c becomes
 * Conv(b, W_b) + c + Resize(Conv(a, W_a)). Decoders that join several scales do this. What it costs is the Resize of as
 * many channels as the Conv makes, and the sum; what it saves is the Concat and the products at all places that the
 * Resize makes. */
#include "ops/vision/vision.h"
#include "transform/rewrite.h"
#include "transform/transform.h"

#include <string.h>

/* Parts of a Concat; a part is worth it from MIN_CHANNELS on, if the Conv makes at most WIDER times as many. */
enum { MOST = 16, MIN_CHANNELS = 64, WIDER = 4 };

typedef struct part {
    nc_value *v;    /* what the Conv reads of it */
    nc_node *grown; /* the Resize that goes behind the Conv; NULL: the part stays where it is */
    int64_t from, channels;
} part;

typedef struct site {
    nc_work *w;
    nc_node *conv;
    int64_t K;
    part parts[MOST];
    int n;
} site;

static bool all_are(const nc_node *n, const char *attr, int64_t want) {
    int count = 0;
    const int64_t *v = nc_attr_ints(n, attr, &count);
    for (int i = 0; v != NULL && i < count; i++)
        if (v[i] != want) return false;
    return true;
}

static bool is_pointwise(const nc_node *n) {
    if (!nc_rewrite_is(n, "Conv") || !nc_rewrite_free(n) || !nc_rewrite_fixed(n->in[1])) return false;
    const nc_literal *w = n->in[1]->lit;
    for (int i = 2; i < w->rank; i++)
        if (w->dims[i] != 1) return false;
    return w->rank > 2 && w->n > 0 && nc_attr_int(n, "group") == 1 && all_are(n, "pads", 0) &&
           all_are(n, "strides", 1) && nc_rewrite_tensor(n->in[0]) && nc_rewrite_tensor(n->out[0]);
}

/* Places of an image with known sizes; 0: they are not known. */
static int64_t places(const nc_type *t) {
    int64_t n = 1, d;
    for (int i = 2; i < t->rank; i++) {
        if (!nc_dim_is_const(t->dims[i], &d) || d < 1 || n > INT64_MAX / d) return 0;
        n *= d;
    }
    return n;
}

/* The Resize behind v, if its shares add up to 1 at every place, it leaves the channels alone and is worth it. */
static nc_node *enlarging(const nc_value *v, int64_t K) {
    nc_node *r = nc_rewrite_def(v, "Resize");
    int64_t C;
    if (r == NULL || r->version->since < 11 || !nc_rewrite_free(r) || !nc_rewrite_only(v)) return NULL;
    if (!nc_rewrite_tensor(r->in[0]) || !nc_rewrite_tensor(v)) return NULL;
    const nc_type *x = r->in[0]->type, *y = v->type;
    if (x->rank < 3 || x->dims[0] != y->dims[0] || x->dims[1] != y->dims[1]) return NULL;
    if (!nc_dim_is_const(x->dims[1], &C) || C < MIN_CHANNELS || K > WIDER * C) return NULL;
    const char *mode = nc_attr_str(r, "mode"), *where = nc_attr_str(r, "coordinate_transformation_mode");
    if (strcmp(mode, "nearest") != 0 && strcmp(mode, "linear") != 0) return NULL;
    if (strcmp(where, "tf_crop_and_resize") == 0 || nc_attr_has(r, "axes")) return NULL;
    if (nc_attr_has(r, "keep_aspect_ratio_policy")) return NULL;
    return places(x) > 0 && places(y) / 2 >= places(x) ? r : NULL;
}

static bool add_part(site *s, nc_value *v) {
    int64_t C;
    if (s->n == MOST || v == NULL || !nc_rewrite_tensor(v) || v->type->rank < 3 || v->var != NULL) return false;
    if (!nc_dim_is_const(v->type->dims[1], &C)) return false;
    const part *before = s->n > 0 ? &s->parts[s->n - 1] : NULL;
    s->parts[s->n++] = (part){.v = v,
                              .grown = enlarging(v, s->K),
                              .from = before != NULL ? before->from + before->channels : 0,
                              .channels = C};
    return true;
}

static bool find_parts(nc_node *conv, site *s) {
    nc_node *concat = nc_rewrite_def(conv->in[0], "Concat");
    bool any = false;
    s->K = conv->in[1]->lit->dims[0];
    s->conv = conv;
    if (concat != NULL && nc_rewrite_only(conv->in[0]) && nc_rewrite_free(concat) && nc_attr_int(concat, "axis") == 1) {
        for (int i = 0; i < concat->n_in; i++)
            if (!add_part(s, concat->in[i])) return false;
    } else if (!add_part(s, conv->in[0])) {
        return false;
    }
    for (int i = 0; i < s->n; i++) any |= s->parts[i].grown != NULL;
    return any && s->parts[s->n - 1].from + s->parts[s->n - 1].channels == conv->in[1]->lit->dims[1];
}

/* ---- building ---- */

/* A type like t with other channels. */
static const nc_type *with_channels(const site *s, const nc_type *t, int64_t channels) {
    const nc_dim *dims[NC_MAX_RANK];
    nc_model *m = s->conv->graph->model;
    for (int i = 0; i < t->rank; i++) dims[i] = i == 1 ? nc_dim_const(m->dims, channels) : t->dims[i];
    return nc_type_tensor(&m->arena, t->elem, t->rank, dims);
}

/* A copy of `like`, in front of the Conv, over other inputs. */
static nc_value *copy_over(const site *s, const nc_node *like, nc_value *const *in, int n_in, const nc_type *type) {
    nc_node *made = nc_edit_node(s->conv->graph, s->conv, like->card, like->version, NULL, in, n_in, NULL, 1);
    if (made == NULL || type == NULL) return NULL;
    for (int i = 0; i < like->n_attrs; i++)
        if (nc_edit_set_attr(made, &like->attrs[i]) != NC_OK) return NULL;
    made->stage = s->conv->stage;
    made->out[0]->type = type;
    return made->out[0];
}

/* The weights of the marked parts, side by side. */
static nc_value *weights_of(const site *s, const bool *marked) {
    const nc_literal *w = s->conv->in[1]->lit;
    int64_t dims[NC_MAX_RANK], C = w->dims[1], width = 0;
    size_t each = nc_dtype_bytes(w->dtype), at = 0;
    for (int i = 0; i < s->n; i++) width += marked[i] ? s->parts[i].channels : 0;
    for (int i = 0; i < w->rank; i++) dims[i] = i == 1 ? width : w->dims[i];
    nc_literal lit = {.dtype = w->dtype, .rank = w->rank, .dims = dims, .n = s->K * width};
    lit.bytes = (size_t)lit.n * each;
    lit.keeps = nc_buffer_host(lit.bytes);
    if (lit.keeps == NULL) return NULL;
    lit.data = lit.keeps->ptr;
    for (int64_t k = 0; k < s->K; k++)
        for (int i = 0; i < s->n; i++) {
            if (!marked[i]) continue;
            size_t bytes = (size_t)s->parts[i].channels * each;
            memcpy((char *)lit.keeps->ptr + at, (const char *)w->data + (size_t)(k * C + s->parts[i].from) * each,
                   bytes);
            at += bytes;
        }
    nc_value *made = nc_edit_const(s->conv->graph, NULL, &lit);
    nc_buffer_unref(lit.keeps);
    return made;
}

static nc_value *conv_of(const site *s, nc_value *x, const bool *marked, bool with_bias) {
    nc_value *in[3] = {x, weights_of(s, marked), with_bias && s->conv->n_in > 2 ? s->conv->in[2] : NULL};
    return in[1] ? copy_over(s, s->conv, in, in[2] ? 3 : 2, with_channels(s, x->type, s->K)) : NULL;
}

/* What is left at the places of the result: joined again where there are several. */
static nc_value *conv_of_rest(const site *s, int *n_rest) {
    nc_value *rest[MOST];
    bool marked[MOST] = {false};
    int64_t channels = 0;
    *n_rest = 0;
    for (int i = 0; i < s->n; i++) {
        if (s->parts[i].grown != NULL) continue;
        rest[(*n_rest)++] = s->parts[i].v;
        marked[i] = true;
        channels += s->parts[i].channels;
    }
    if (*n_rest == 0) return NULL;
    nc_value *x = rest[0];
    if (*n_rest > 1)
        x = copy_over(s, s->conv->in[0]->def, rest, *n_rest, with_channels(s, s->conv->in[0]->type, channels));
    return x != NULL ? conv_of(s, x, marked, true) : NULL;
}

/* Resize(Conv(a, W_a)): where sizes are given, with other channels. */
static nc_value *grown_of(const site *s, int i, bool with_bias) {
    const nc_node *r = s->parts[i].grown;
    bool marked[MOST] = {false};
    marked[i] = true;
    nc_value *small = conv_of(s, r->in[0], marked, with_bias), *in[4] = {small, NULL, NULL, NULL};
    if (small == NULL) return NULL;
    for (int k = 1; k < r->n_in && k < 4; k++) in[k] = r->in[k];
    int64_t sizes[NC_MAX_RANK];
    int n, at = nc_resize_inputs_of(r).sizes;
    if (at < r->n_in && r->in[at] != NULL && nc_rewrite_ints(r->in[at], sizes, NC_MAX_RANK, &n) && n > 1) {
        sizes[1] = s->K;
        in[at] = nc_edit_const_i64(s->conv->graph, NULL, 1, n, sizes);
        if (in[at] == NULL) return NULL;
    }
    return copy_over(s, r, in, r->n_in, with_channels(s, s->parts[i].v->type, s->K));
}

/* Sizes that are only known in the run cannot be changed here. */
static bool sizes_are_known(const site *s) {
    int64_t sizes[NC_MAX_RANK];
    for (int i = 0, n; i < s->n; i++) {
        const nc_node *r = s->parts[i].grown;
        int at = r != NULL ? nc_resize_inputs_of(r).sizes : 0;
        if (r == NULL || at >= r->n_in || r->in[at] == NULL) continue;
        bool known = nc_rewrite_ints(r->in[at], sizes, NC_MAX_RANK, &n);
        if (!known || (n > 0 && n != r->in[0]->type->rank)) return false;
    }
    return true;
}

static nc_code take_apart(site *s) {
    int n_rest, n_sums = 0;
    const nc_op_version *version;
    nc_node *conv = s->conv, *made = NULL;
    nc_value *read = conv->in[0], *sum = conv_of_rest(s, &n_rest);
    const nc_card *add = nc_rewrite_card(conv->graph->model, "Add", conv->out[0]->type->elem, &version);
    for (int i = 0; i < s->n; i++) {
        if (s->parts[i].grown == NULL) continue;
        nc_value *grown = grown_of(s, i, n_rest == 0 && n_sums == 0);
        if (grown == NULL || add == NULL || (sum == NULL && n_rest + n_sums > 0)) break;
        nc_value *both[2] = {sum, grown};
        if (sum != NULL) {
            made = nc_edit_node(conv->graph, conv, add, version, NULL, both, 2, NULL, 1);
            grown = made != NULL ? made->out[0] : NULL;
        }
        if (grown == NULL) break;
        sum = grown, sum->type = conv->out[0]->type;
        n_sums++;
    }
    if (s->w->diag.code != NC_OK || sum == NULL || n_sums == 0) NC_FAIL(s->w, NC_E_MEMORY, "out of memory");
    nc_rewrite_skip(conv, sum);
    nc_rewrite_drop(read);
    for (int i = 0; i < s->n; i++)
        if (s->parts[i].grown != NULL && s->parts[i].v != read) nc_rewrite_drop(s->parts[i].v);
    return NC_OK;
}

nc_code nc_pass_resizes(nc_work *w, nc_graph *g, int *n_changes) {
    for (nc_node *n = g->first, *next; n != NULL; n = next) {
        next = n->next;
        site s = {.w = w};
        if (!is_pointwise(n) || !find_parts(n, &s) || !sizes_are_known(&s)) continue;
        NC_TRY(take_apart(&s));
        (*n_changes)++;
    }
    return NC_OK;
}
