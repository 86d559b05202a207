/* ir/fake_cards.h: a small registry for the tests of ir/: operators that mean nothing but have every shape a card
 * can have. */
#ifndef NC_IR_FAKE_CARDS_H
#define NC_IR_FAKE_CARDS_H

#include "ir/card.h"

extern const nc_registry nc_fake_registry;
const nc_card *nc_fake_card(const char *name); /* of the default domain */
/* A parsed and verified model; NULL after a failed check that shows the message. */
nc_model *nc_fake_parse(const char *text);
/* Fails the running test unless m prints as want. */
void nc_fake_check_print(const nc_model *m, const char *want);

#endif
