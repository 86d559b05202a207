/* Names near a wrong one, for messages. */
#include "base/near.h"

#include "tests/check.h"

static const char *near(const char *wanted, const char *const *names, int n, char text[200]) {
    nc_near k = {.wanted = wanted};
    for (int i = 0; i < n; i++) nc_near_offer(&k, names[i]);
    return nc_near_text(&k, text);
}

TEST(near_names_come_nearest_first) {
    static const char *const names[] = {"logits", "loss", "lost", "weights", "less", "l"};
    char text[200];
    CHECK_STR(near("lossy", names, 6, text), "; nearest: 'loss', 'lost', 'less'");
    CHECK_STR(near("weight", names, 6, text), "; nearest: 'weights'");
    CHECK_STR(near("nothing like it", names, 0, text), "");
    CHECK_STR(near("0123456", names, 6, text), "");
    CHECK_STR(near("", names, 6, text), "");
}

TEST(near_names_that_hold_it_are_near) {
    static const char *const names[] = {"encoder/layer_0/dense/weight", "weight_of_another", "bias"};
    char text[200];
    CHECK_STR(near("weight", names, 3, text), "; nearest: 'weight_of_another', 'encoder/layer_0/dense/weight'");
}

TEST(near_names_are_told_once_and_cut) {
    char a[400], b[400], text[200];
    for (int i = 0; i < 399; i++) a[i] = 'a', b[i] = i < 398 ? 'a' : 'b';
    a[399] = b[399] = '\0';
    const char *names[] = {a, a, b};
    nc_near k = {.wanted = a};
    for (int i = 0; i < 3; i++) nc_near_offer(&k, names[i]);
    CHECK_INT(k.n, 2);
    CHECK_INT((int)strlen(nc_near_text(&k, text)), 11 + 52 + 2 + 52);
}
