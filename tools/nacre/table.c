/* tools/nacre/table.c: output for people: columns that line up, sizes and times with units, JSON strings. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void bytes_text(double bytes, char *text, size_t n) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    while (bytes >= 1024 && u < 4) bytes /= 1024, u++;
    snprintf(text, n, u ? "%.2f %s" : "%.0f %s", bytes, units[u]);
}

void time_text(double ms, char *text, size_t n) {
    if (ms < 1)
        snprintf(text, n, "%.1f us", ms * 1e3);
    else if (ms < 1e3)
        snprintf(text, n, "%.2f ms", ms);
    else
        snprintf(text, n, "%.2f s", ms / 1e3);
}

/* ---- columns ---- */

bool table_row(table *t, int n_cols, ...) {
    if (t->n + n_cols > t->cap) {
        int cap = t->cap ? t->cap * 2 : 64 * n_cols;
        char **cells = realloc(t->cells, (size_t)cap * sizeof *cells);
        if (!cells) return false;
        t->cells = cells, t->cap = cap;
    }
    t->n_cols = n_cols;
    va_list ap;
    va_start(ap, n_cols);
    bool ok = true;
    for (int i = 0; i < n_cols; i++) {
        t->cells[t->n] = strdup(va_arg(ap, const char *));
        ok = ok && t->cells[t->n];
        t->n++;
    }
    va_end(ap);
    return ok;
}

/* Columns on a terminal, not bytes: what continues a UTF-8 character has no width. */
static int width(const char *s) {
    int n = 0;
    for (; *s; s++) n += (*s & 0xc0) != 0x80;
    return n;
}

static void print_cell(const char *s, int w, bool right, bool last) {
    int pad = w - width(s);
    if (right) printf("%*s", pad, "");
    fputs(s, stdout);
    if (!right && !last) printf("%*s", pad, "");
}

void table_print(const table *t) {
    int rows = t->n_cols ? t->n / t->n_cols : 0;
    int *w = calloc((size_t)t->n_cols + 1, sizeof *w);
    for (int i = 0; w && i < t->n; i++) {
        const char *s = t->cells[i] ? t->cells[i] : "";
        int k = width(s) - (i < t->n_cols && s[0] == '>');
        if (k > w[i % t->n_cols]) w[i % t->n_cols] = k;
    }
    for (int r = 0; w && r < rows; r++) {
        printf("  ");
        for (int c = 0; c < t->n_cols; c++) {
            const char *s = t->cells[r * t->n_cols + c], *head = t->cells[c];
            bool right = head && head[0] == '>';
            if (!s) s = "";
            if (r == 0 && right) s++;
            if (c) printf("  ");
            print_cell(s, w[c], right, c + 1 == t->n_cols);
        }
        printf("\n");
    }
    free(w);
}

void table_release(table *t) {
    for (int i = 0; i < t->n; i++) free(t->cells[i]);
    free(t->cells);
    *t = (table){0};
}

void table_ops(nacre_session *s, int runs) {
    nacre_profile_op *rows;
    size_t n;
    nacre_error err;
    if (nacre_session_profile_ops(s, &rows, &n, &err) != NACRE_OK) {
        cli_error(&err);
        return;
    }
    double total = 0;
    for (size_t i = 0; i < n; i++) total += (double)rows[i].ns;
    table t = {0};
    table_row(&t, 6, "operator", ">calls/run", ">time/run", ">share", ">bytes/run", ">GB/s");
    for (size_t i = 0; i < n; i++) {
        char calls[32], ms[32], share[32], bytes[32], rate[32];
        double ns = (double)rows[i].ns;
        snprintf(calls, sizeof calls, "%.4g", (double)rows[i].calls / runs);
        time_text(ns / 1e6 / runs, ms, sizeof ms);
        snprintf(share, sizeof share, "%.1f%%", total > 0 ? 100 * ns / total : 0);
        bytes_text((double)rows[i].bytes / runs, bytes, sizeof bytes);
        snprintf(rate, sizeof rate, "%.2f", ns > 0 ? (double)rows[i].bytes / ns : 0);
        table_row(&t, 6, rows[i].op, calls, ms, share, bytes, rate);
    }
    table_print(&t);
    table_release(&t);
    nacre_free(rows);
}

void json_text(FILE *f, const char *s) {
    fputc('"', f);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c < 0x20)
            fprintf(f, "\\u%04x", c);
        else
            fputc(c, f);
    }
    fputc('"', f);
}
