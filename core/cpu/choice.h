/* SPDX-License-Identifier: MIT */
/*
** The table of measured choices, as kernels use it: what is known, and measuring what is not.
*/
#ifndef RIDGE_CPU_CHOICE_H
#define RIDGE_CPU_CHOICE_H

#include "op/op.h"
#include "ridge/choice.h"

enum { RG_ROUNDS_MOST = 99 };

/* Fill in what was measured of a key; false, and nothing is written: it was not. */
bool rg_choice_known(rg_choice *key);

/* What chose, of a choice that is in the table or was made by a rule: RG_BY_... */
int32_t rg_choice_by(const rg_choice *choice);

/* For who watches this thread. */
rg_status rg_choice_write_down(const rg_choice *choice) RG_CHECK;

/* Is what was measured not to be taken, whatever it says? */
bool rg_choice_pinned(void);

/* Rounds to measure in, where this thread measures now; 0: it does not.  Does it remember nothing
** of it, and measure also what is known? */
int32_t rg_choice_rounds(void);
bool rg_choice_forgets(void);

/* While quiet, products of this thread are neither measured nor seen: what a way computes is part
** of it.  Returns what it was before. */
bool rg_choice_quiet(bool on);

/* The ways of one piece of work. */
typedef struct rg_ways {
  /* Prepare a way and run it once; RG_ENOSUP: it cannot do the work here. */
  rg_status (*begin)(void *work, int32_t way);
  rg_status (*go)(void *work, int32_t way);
  void *work;
  bool able[RG_WAYS];
  int32_t standard;
} rg_ways;

/* Measure the ways that are able, all of them in each of so many rounds, and fill in times and what
** is chosen; choice: with its key. */
rg_status rg_choice_measure(rg_ways *ways, int32_t rounds, rg_choice *choice) RG_CHECK;
rg_status rg_ways_measure(rg_ways *ways, int32_t rounds, rg_choice *choice) RG_CHECK;

/* Times and path from the samples of n rounds, by path, NULL where one cannot do it; they are
** sorted here. */
void rg_choice_decide(double *const ns[RG_WAYS], int32_t n, int32_t standard, rg_choice *choice);

/* One reason to ask the table more, or less. */
void rg_choices_matters(bool before, bool now);

/* Is anything measured, or to be, or watched, on any thread?  One counter for all: a call asks it
** each time. */
extern _Atomic int32_t rg_choices_matter;

#endif
