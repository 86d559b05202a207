/* tests/fuzz/fuzz_node_draw.h: bytes to a model of one node: an operator out of all cards and versions of ONNX and
 * ONNX Runtime, inputs and attributes as its row says them, of related shapes, now and then as no row says them. Equal
 * bytes draw equal models; where the bytes end, zeros follow. The inputs' values are drawn too: some are constants of
 * the model, the others are fed. */
#ifndef NC_TESTS_FUZZ_NODE_DRAW_H
#define NC_TESTS_FUZZ_NODE_DRAW_H

#include "base/dtype.h"
#include "ir/card.h"
#include "ir/edit.h"
#include "nacre/nacre.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define OP(x) extern const nc_card nc_card_##x;
#include "ops/ops.list"
#undef OP

static const nc_card *const fuzz_cards[] = {
#define OP(x) &nc_card_##x,
#include "ops/ops.list"
#undef OP
};

enum { FUZZ_MAX_IN = 24, FUZZ_MAX_RANK = 6, FUZZ_N_CARDS = sizeof fuzz_cards / sizeof fuzz_cards[0] };

typedef struct fuzz_drawn {
    const uint8_t *p;
    size_t n;
    const nc_card *card;
    const nc_op_version *version;
    nc_model *m;
    int rank; /* of most inputs */
    int64_t dims[FUZZ_MAX_RANK];
    nacre_value *fed[FUZZ_MAX_IN];
    char names[FUZZ_MAX_IN][16];
    nc_value *in[FUZZ_MAX_IN];
    int n_in, n_fed;
} fuzz_drawn;

static uint8_t fuzz_byte(fuzz_drawn *d) {
    if (!d->n) return 0;
    d->n--;
    return *d->p++;
}

static unsigned fuzz_below(fuzz_drawn *d, unsigned n) {
    unsigned v = fuzz_byte(d);
    if (n > 256) v = v << 8 | fuzz_byte(d);
    return n ? v % n : 0;
}

static int64_t fuzz_int(fuzz_drawn *d) {
    static const int64_t odd[] = {INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN, 1000, -1000, 255, 65536};
    unsigned k = fuzz_below(d, 64);
    if (d->card->traits & NC_LOOPS) return k % 4; /* they would go on for ever */
    return k >= 60 ? odd[fuzz_below(d, 8)] : k < 40 ? k % 8 : k < 52 ? -(int64_t)(k % 4) : (int64_t)k;
}

static float fuzz_float(fuzz_drawn *d) {
    static const float odd[] = {NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 1e-30f, -0.0f, 65504.0f};
    unsigned k = fuzz_below(d, 64);
    return k >= 58 ? odd[fuzz_below(d, 8)] : k >= 24 ? (float)(k % 9) / 4 - 1 : (float)(k % 6);
}

static const char *const fuzz_words[] = {"",
                                         "a",
                                         "12",
                                         "-3.5",
                                         "nan",
                                         "\xc3\xa9t\xc3\xa9",
                                         "\xff\xfe",
                                         "a b a",
                                         "linear",
                                         "nearest",
                                         "cubic",
                                         "add",
                                         "mul",
                                         "max",
                                         "min",
                                         "none",
                                         "sum",
                                         "mean",
                                         "constant",
                                         "reflect",
                                         "edge",
                                         "wrap",
                                         "NOTSET",
                                         "SAME_UPPER",
                                         "SAME_LOWER",
                                         "VALID",
                                         "bilinear",
                                         "zeros",
                                         "border",
                                         "reverse",
                                         "forward",
                                         "bidirectional",
                                         "Relu",
                                         "Tanh",
                                         "ij,jk->ik",
                                         "...i->...",
                                         "half_pixel",
                                         "asymmetric",
                                         "align_corners",
                                         "tf_crop_and_resize",
                                         "floor",
                                         "ceil",
                                         "round_prefer_floor",
                                         "BRANCH_LEQ",
                                         "LEAF",
                                         "SUM",
                                         "SOFTMAX",
                                         "LOGISTIC",
                                         "RBF",
                                         "POLY",
                                         "TF",
                                         "IDF",
                                         "TFIDF",
                                         "LOWER",
                                         "[a-z]+",
                                         "(a|b)*",
                                         "DCR",
                                         "CRD",
                                         "gelu",
                                         "fastgelu",
                                         "avg"};

static const char *fuzz_word(fuzz_drawn *d) {
    return fuzz_words[fuzz_below(d, sizeof fuzz_words / sizeof fuzz_words[0])];
}

static nc_dtype fuzz_dtype(fuzz_drawn *d, nc_types types) {
    nc_dtype all[NC_N_DTYPES];
    unsigned n = 0;
    for (int t = 1; t < NC_N_DTYPES; t++)
        if (types >> t & 1) all[n++] = (nc_dtype)t;
    if (!n || fuzz_below(d, 64) == 63) return (nc_dtype)(1 + fuzz_below(d, NC_N_DTYPES - 1));
    return all[fuzz_below(d, n)];
}

static int64_t fuzz_size(fuzz_drawn *d) {
    static const int64_t sizes[] = {2, 3, 1, 4, 0, 5, 8, 17};
    return sizes[fuzz_below(d, 8)];
}

static int fuzz_shape(fuzz_drawn *d, int64_t *dims) {
    unsigned how = fuzz_below(d, 16);
    int rank = d->rank;
    memcpy(dims, d->dims, sizeof d->dims);
    if (how < 8) return rank;
    if (how == 8) return 0;
    if (how < 11) {
        dims[0] = how == 9 && rank ? d->dims[fuzz_below(d, (unsigned)rank)] : fuzz_size(d);
        return 1;
    }
    if (how < 13 && rank) {
        dims[fuzz_below(d, (unsigned)rank)] = fuzz_size(d);
        return rank;
    }
    rank = (int)fuzz_below(d, FUZZ_MAX_RANK);
    for (int k = 0; k < rank; k++) dims[k] = fuzz_size(d);
    return rank;
}

/* ---- contents ---- */

static void fuzz_store(fuzz_drawn *d, nc_dtype t, void *p, int64_t i, unsigned how) {
    int64_t v = how < 2 ? (int64_t)fuzz_below(d, 4) - (how == 1) : fuzz_int(d);
    float f = how < 2 ? (float)v : fuzz_float(d);
    switch (t) {
    case NC_FLOAT: ((float *)p)[i] = f; break;
    case NC_DOUBLE: ((double *)p)[i] = (double)f; break;
    case NC_FLOAT16: ((uint16_t *)p)[i] = nc_f32_to_f16(f); break;
    case NC_BFLOAT16: ((uint16_t *)p)[i] = nc_f32_to_bf16(f); break;
    case NC_COMPLEX64: ((float *)p)[2 * i] = f, ((float *)p)[2 * i + 1] = -f; break;
    case NC_COMPLEX128: ((double *)p)[2 * i] = (double)f, ((double *)p)[2 * i + 1] = 1; break;
    case NC_BOOL: ((uint8_t *)p)[i] = (uint8_t)(v & 1); break;
    case NC_INT8:
    case NC_UINT8: ((uint8_t *)p)[i] = (uint8_t)v; break;
    case NC_INT16:
    case NC_UINT16: ((uint16_t *)p)[i] = (uint16_t)v; break;
    case NC_INT32:
    case NC_UINT32: ((uint32_t *)p)[i] = (uint32_t)v; break;
    case NC_INT64:
    case NC_UINT64: ((uint64_t *)p)[i] = (uint64_t)v; break;
    default: ((uint8_t *)p)[(size_t)i * nc_dtype_bits(t) / 8] = (uint8_t)((uint64_t)v * 37); break;
    }
}

static nacre_value *fuzz_strings(fuzz_drawn *d, int rank, const int64_t *dims, int64_t n) {
    const char *all[4096];
    nacre_value *v = NULL;
    nacre_error e;
    for (int64_t i = 0; i < n; i++) all[i] = fuzz_word(d);
    return nacre_value_strings(rank, dims, all, &v, &e) == NACRE_OK ? v : NULL;
}

/* A tensor with contents; NULL: it would be too large. */
static nacre_value *fuzz_tensor(fuzz_drawn *d, nc_dtype t, int rank, const int64_t *dims) {
    int64_t n = 1;
    nacre_value *v = NULL;
    nacre_error e;
    for (int k = 0; k < rank; k++) n *= dims[k];
    if (n > 4096) return NULL;
    if (t == NC_STRING) return fuzz_strings(d, rank, dims, n);
    if (nacre_value_new_tensor((nacre_type)t, rank, dims, &v, &e) != NACRE_OK) return NULL;
    unsigned how = fuzz_below(d, 4);
    for (int64_t i = 0; i < n; i++) fuzz_store(d, t, nacre_value_data(v), i, how);
    return v;
}

static const nc_literal *fuzz_literal(fuzz_drawn *d, nacre_value *v) {
    nc_str strings[4096];
    int64_t n = nacre_value_count(v);
    if (nacre_value_type(v) != NACRE_STRING)
        return nc_edit_literal(d->m, (nc_dtype)nacre_value_type(v), nacre_value_rank(v), nacre_value_dims(v),
                               nacre_value_data(v));
    for (int64_t i = 0; i < n; i++) strings[i].p = (char *)(uintptr_t)nacre_value_string(v, i, &strings[i].n);
    return nc_edit_literal(d->m, NC_STRING, nacre_value_rank(v), nacre_value_dims(v), strings);
}

/* ---- inputs ---- */

/* The dims as constants, as symbols, or the rank alone unknown. */
static const nc_type *fuzz_declared(fuzz_drawn *d, nc_dtype t, int rank, const int64_t *dims) {
    const nc_dim *said[FUZZ_MAX_RANK];
    unsigned how = fuzz_below(d, 8);
    for (int k = 0; k < rank; k++)
        said[k] = how < 5 || (how == 6 && k) ? nc_dim_const(d->m->dims, dims[k]) : nc_dim_fresh(d->m->dims, "d");
    return nc_type_tensor(&d->m->arena, t, how == 7 ? -1 : rank, said);
}

static const nc_type *fuzz_wrap(fuzz_drawn *d, nc_types types, nacre_value **v, const nc_type *t) {
    nacre_type elem = nacre_value_type(*v);
    nacre_value *held = NULL, *items[2] = {*v, *v};
    nacre_error e;
    bool optional = !(types & NC_TYPES_SEQUENCE);
    nacre_code code = optional ? nacre_value_optional(elem, fuzz_below(d, 4) ? *v : NULL, &held, &e)
                               : nacre_value_sequence(elem, items, fuzz_below(d, 3), &held, &e);
    if (code != NACRE_OK) return t;
    nacre_value_release(*v);
    *v = held;
    return nc_type_holding(&d->m->arena, optional ? NC_T_OPTIONAL : NC_T_SEQUENCE, t);
}

/* False: no model comes of these bytes. */
static bool fuzz_input(fuzz_drawn *d, const nc_param *p) {
    const nc_value *same = p->types == 0 && p->same < d->n_in ? d->in[(int)p->same] : NULL;
    nc_types types = p->types ? p->types : NC_BIT(NC_FLOAT);
    nc_dtype t = same && same->type && same->type->elem ? same->type->elem : fuzz_dtype(d, types);
    int64_t dims[FUZZ_MAX_RANK];
    int rank = fuzz_shape(d, dims), i = d->n_in;
    nacre_value *v = fuzz_tensor(d, t, rank, dims);
    if (!v) return false;
    snprintf(d->names[i], sizeof d->names[i], "x%d", i);
    const nc_types lists = NC_TYPES_SEQUENCE | NC_TYPES_OPTIONAL;
    bool list = (types & lists) && (!(types & ~lists) || fuzz_below(d, 4) == 3);
    if (!list && fuzz_below(d, 4) == 3) {
        const nc_literal *l = fuzz_literal(d, v);
        d->in[d->n_in++] = l ? nc_edit_const(d->m->main, d->names[i], l) : NULL;
        nacre_value_release(v);
        return l != NULL;
    }
    const nc_type *type = fuzz_declared(d, t, rank, dims);
    if (list && type) type = fuzz_wrap(d, types, &v, type);
    d->in[d->n_in++] = type ? nc_edit_input(d->m->main, d->names[i], type) : NULL;
    memmove(d->names[d->n_fed], d->names[i], sizeof d->names[i]);
    d->fed[d->n_fed++] = v;
    return type != NULL;
}

static bool fuzz_inputs(fuzz_drawn *d) {
    bool loops = d->card->traits & NC_LOOPS; /* those end by inputs that may be left out */
    d->rank = (int)fuzz_below(d, FUZZ_MAX_RANK);
    for (int k = 0; k < d->rank; k++) d->dims[k] = fuzz_size(d);
    for (const nc_param *p = d->version->in; p->name && d->n_in < 16; p++) {
        unsigned many = p->flags & NC_P_VARIADIC ? 1 + fuzz_below(d, 4) : 1;
        if (p->flags & NC_P_OPTIONAL && !loops && fuzz_below(d, 2)) {
            d->in[d->n_in++] = NULL;
            continue;
        }
        while (many-- && d->n_in < 16)
            if (!fuzz_input(d, p)) return false;
    }
    return true;
}

/* ---- attributes ---- */

/* A body that hands on what it gets; now and then one input or output more or less than the node's. */
static bool fuzz_body(fuzz_drawn *d, nc_node *n, const char *name) {
    nc_graph *g = nc_edit_subgraph(n, name);
    if (!g) return false;
    int n_in = n->n_in - (int)fuzz_below(d, 8) % 3, n_out = n->n_out + (int)fuzz_below(d, 2);
    for (int i = 0; i < n_in; i++) {
        const nc_type *t = n->in[i] ? n->in[i]->type : NULL;
        char x[32];
        snprintf(x, sizeof x, "%.12s_%d", name, i);
        if (!nc_edit_input(g, x, fuzz_below(d, 2) ? NULL : t)) return false;
    }
    for (int o = 0; o < n_out; o++) {
        nc_value *v = o + 1 < g->inputs.n ? g->inputs.v[o + 1] : NULL;
        if (!v) v = nc_edit_const_scalar(g, "", fuzz_below(d, 2) ? NC_BOOL : NC_FLOAT, 1);
        if (!v || nc_edit_output(g, v, v->name) != NC_OK) return false;
    }
    return true;
}

static bool fuzz_attr(fuzz_drawn *d, nc_node *n, const nc_attr_spec *s) {
    int64_t ints[8];
    float floats[8];
    nc_str words[8];
    nc_attr a = {.name = s->name, .kind = s->kind, .n = (int)fuzz_below(d, 8)};
    int64_t dims[1] = {a.n};
    nacre_value *v = NULL;
    for (int k = 0; k < a.n; k++) {
        const char *w = s->kind == NC_A_STRINGS ? fuzz_word(d) : "";
        ints[k] = s->kind == NC_A_INTS ? fuzz_int(d) : 0;
        floats[k] = s->kind == NC_A_FLOATS ? fuzz_float(d) : 0;
        words[k] = (nc_str){(char *)(uintptr_t)w, strlen(w)};
    }
    switch (s->kind) {
    case NC_A_INT: a.i = fuzz_int(d); break;
    case NC_A_FLOAT: a.f = fuzz_float(d); break;
    case NC_A_STRING: a.s.p = (char *)(uintptr_t)fuzz_word(d), a.s.n = strlen(a.s.p); break;
    case NC_A_INTS: a.ints = ints; break;
    case NC_A_FLOATS: a.floats = floats; break;
    case NC_A_STRINGS: a.strings = words; break;
    case NC_A_TENSOR:
        v = fuzz_tensor(d, fuzz_dtype(d, NC_TYPES_ANYTHING), 1, dims);
        if (!v || !(a.tensor = fuzz_literal(d, v))) return false;
        break;
    case NC_A_TYPE: a.type = fuzz_declared(d, fuzz_dtype(d, NC_TYPES_ANYTHING), d->rank, d->dims); break;
    default: return true;
    }
    nc_code code = nc_edit_set_attr(n, &a);
    nacre_value_release(v);
    return code == NC_OK;
}

static bool fuzz_attrs(fuzz_drawn *d, nc_node *n) {
    for (const nc_attr_spec *s = d->version->attr; s->name; s++) {
        bool needed = s->flags & NC_ATTR_REQUIRED;
        if (fuzz_below(d, needed ? 32 : 3) == 1) continue;
        if (s->kind == NC_A_GRAPH ? !fuzz_body(d, n, s->name) : !fuzz_attr(d, n, s)) return false;
    }
    return true;
}

/* ---- the model ---- */

static bool fuzz_opsets(fuzz_drawn *d) {
    const char *domain = d->card->domain ? d->card->domain : "";
    d->m->opsets = nc_arena_array(&d->m->arena, 2, sizeof *d->m->opsets);
    if (!d->m->opsets) return false;
    d->m->ir_version = 10;
    d->m->opsets[d->m->n_opsets++] = (nc_opset){domain, d->version->since};
    if (*domain) d->m->opsets[d->m->n_opsets++] = (nc_opset){"", 18 + (int64_t)fuzz_below(d, 6)};
    return true;
}

static bool fuzz_node(fuzz_drawn *d) {
    const char *names[16];
    char text[16][16];
    int n_out = 0;
    for (const nc_param *p = d->version->out; p->name && n_out < 15; p++) {
        unsigned many = p->flags & NC_P_VARIADIC ? fuzz_below(d, 4) : 1;
        for (unsigned k = 0; k < many && n_out < 15; k++, n_out++) {
            snprintf(text[n_out], sizeof text[n_out], "y%d", n_out);
            names[n_out] = p->flags & NC_P_OPTIONAL && fuzz_below(d, 3) == 1 ? "" : text[n_out];
        }
    }
    nc_node *n = nc_edit_node(d->m->main, NULL, d->card, d->version, "n", d->in, d->n_in, names, n_out);
    if (!n || !fuzz_attrs(d, n)) return false;
    for (int i = 0; i < n_out; i++)
        if (n->out[i] && nc_edit_output(d->m->main, n->out[i], n->out[i]->name) != NC_OK) return false;
    return true;
}

/* A number for what is called `name` (and `of` it, a number) under a key: the highest one is drawn, so that bytes keep
 * their meaning whatever else the list holds, in whatever order, unless what is new wins. */
static uint64_t fuzz_weight(const char *domain, const char *name, int of, unsigned key) {
    uint64_t h = 14695981039346656037ull ^ (key * 0x9E3779B97F4A7C15ull + (unsigned)of);
    for (const char *p = domain ? domain : ""; *p; p++) h = (h ^ (uint8_t)*p) * 1099511628211ull;
    h = (h ^ ':') * 1099511628211ull;
    for (const char *p = name; *p; p++) h = (h ^ (uint8_t)*p) * 1099511628211ull;
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93ull;
    return (h ^ h >> 29) * 0xBF58476D1CE4E5B9ull >> 16;
}

static const nc_card *fuzz_card(unsigned key) {
    const nc_card *best = fuzz_cards[0];
    uint64_t most = 0;
    for (int i = 0; i < FUZZ_N_CARDS; i++) {
        uint64_t w = fuzz_weight(fuzz_cards[i]->domain, fuzz_cards[i]->name, 0, key);
        if (w > most) most = w, best = fuzz_cards[i];
    }
    return best;
}

static const nc_op_version *fuzz_version(const nc_card *card, unsigned key) {
    const nc_op_version *best = card->versions;
    uint64_t most = 0;
    for (const nc_op_version *v = card->versions; v->since; v++) {
        uint64_t w = fuzz_weight(card->domain, card->name, v->since, key);
        if (w > most) most = w, best = v;
    }
    return best;
}

/* False: nothing was drawn. fuzz_release in both cases. card NULL: one that the bytes name. */
static bool fuzz_draw(fuzz_drawn *d, const nc_card *card, const uint8_t *data, size_t size, const nc_registry *r) {
    *d = (fuzz_drawn){.p = data, .n = size};
    unsigned key = (unsigned)fuzz_byte(d) << 8;
    key |= fuzz_byte(d);
    d->card = card ? card : fuzz_card(key);
    d->version = fuzz_version(d->card, fuzz_byte(d));
    if (d->card->domain && strcmp(d->card->domain, "nacre") == 0) return false; /* made by stages, not by files */
    if (d->card->names_values) return false; /* its attributes name values of a graph, and here is none */
    if (!d->version->since || d->version->removed || !(d->m = nc_model_create(r))) return false;
    return fuzz_opsets(d) && fuzz_inputs(d) && fuzz_node(d);
}

static void fuzz_release(fuzz_drawn *d) {
    for (int i = 0; i < d->n_fed; i++) nacre_value_release(d->fed[i]);
    nc_model_destroy(d->m);
}

#endif
