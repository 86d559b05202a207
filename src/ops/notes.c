/* ops/notes.c: the operators of which files can be read in two ways, each with who says which reading was taken. */
#include "ops/notes.h"

#include "ops/vision/vision.h"

extern const nc_card nc_card_resize;

static const struct {
    const nc_card *card;
    const char *(*note)(const nc_node *n);
} notes[] = {{&nc_card_resize, nc_resize_note}};

const char *nc_op_note(const nc_node *n) {
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (notes[i].card == n->card) return notes[i].note(n);
    return NULL;
}
