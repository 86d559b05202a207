/* base/near.c: names near a wrong one, by how many letters differ (Levenshtein's distance, over the first letters of
 * long names). A name is near when at most a third of its letters differ, or when one holds the other. */
#include "base/near.h"

#include <stdio.h>
#include <string.h>

enum { LETTERS = 64 };

static int distance(const char *a, const char *b) {
    int n = (int)strnlen(a, LETTERS), m = (int)strnlen(b, LETTERS), row[LETTERS + 1];
    for (int j = 0; j <= m; j++) row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int change = diagonal + (a[i - 1] != b[j - 1]), least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            diagonal = row[j];
            row[j] = change < least ? change : least;
        }
    }
    return row[m];
}

/* One that holds the other comes behind all that differ in few letters. */
static int rank_of(const char *wanted, const char *name) {
    int d = distance(wanted, name), letters = (int)strnlen(wanted, LETTERS);
    if (3 * d <= letters + 2) return d;
    return *wanted && *name && (strstr(name, wanted) || strstr(wanted, name)) ? LETTERS + d : -1;
}

void nc_near_offer(nc_near *k, const char *name) {
    int d = rank_of(k->wanted, name), at = k->n;
    for (int i = 0; i < k->n; i++)
        if (strcmp(k->names[i], name) == 0) return;
    if (d < 0) return;
    while (at > 0 && k->distances[at - 1] > d) at--;
    if (at == NC_NEAR_MAX) return;
    if (k->n < NC_NEAR_MAX) k->n++;
    for (int i = k->n - 1; i > at; i--) k->names[i] = k->names[i - 1], k->distances[i] = k->distances[i - 1];
    k->names[at] = name, k->distances[at] = d;
}

const char *nc_near_text(const nc_near *k, char text[200]) {
    text[0] = '\0';
    for (int i = 0; i < k->n; i++) {
        size_t used = strlen(text);
        snprintf(text + used, 200 - used, "%s'%.50s'", i ? ", " : "; nearest: ", k->names[i]);
    }
    return text;
}
