/* SPDX-License-Identifier: MIT */
/*
** Which path of products is the fastest for which product, measured on this machine.
**
** A product that was not measured takes the path that what was fitted on this machine expects to be
** the fastest (path_fitted.c), else the default one.
**
** A product is measured where it is first run with tuning on, on its own factors: every path in
** turn, round by round, so that a change of the machine meets all of them.  What is written there
** is written again by the path that is taken.  A path replaces the default one where the median of
** the rounds' ratios lies below 1 with 95 % confidence: between equals the default stays, and two
** runs choose alike.
*/
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu/choice.h"
#include "cpu/cpu.h"
#include "cpu/path.h"
#include "ridge/device.h"

enum { ROUNDS_LEAST = 6 };

_Atomic int32_t rg_choices_matter;

/* This thread's. */
static _Thread_local int32_t tuning_rounds;
static _Thread_local bool forgets; /* what is measured */
static _Thread_local bool watched;
static _Thread_local bool quiet;

void rg_choices_matters(bool before, bool now)
{
  atomic_fetch_add_explicit(&rg_choices_matter, (int32_t)now - (int32_t)before,
                            memory_order_relaxed);
}

/* In the order they came; slot: 1 + where in choice, by hash, with linear probing. */
static struct {
  rg_spin lock;
  bool matters; /* is anything in it? */
  int64_t n, room;
  rg_choice *choice;
  int64_t *slot; /* 2 room of them, a power of two */
} table;

int32_t rg_tuning(int32_t rounds)
{
  int32_t before = tuning_rounds;

  tuning_rounds = rounds <= 0               ? 0
                  : rounds < ROUNDS_LEAST   ? ROUNDS_LEAST
                  : rounds > RG_ROUNDS_MOST ? RG_ROUNDS_MOST
                                            : rounds;
  rg_choices_matters(before > 0, tuning_rounds > 0);
  return before;
}

int32_t rg_tuning_keeps(int32_t keeps)
{
  int32_t before = !forgets;

  forgets = keeps == 0;
  return before;
}

/* -- The table --------------------------------------------------------------------------------- */

static void key_of(const rg_product *p, rg_choice *key)
{
  const rg_piece *piece = &p->b.piece[0];
  const rg_epilogue *e = &p->epilogue;

  memset(key, 0, sizeof(*key)); /* keys are compared byte by byte */
  key->m = p->m;
  key->n = p->n;
  key->k = p->k;
  key->compute = p->compute;
  key->a_dtype = p->a_dtype;
  key->b_dtype = piece->dtype;
  key->c_dtype = p->c_dtype;
  key->a_across = p->a_col != 1 && p->k > 1;
  key->b_across = piece->col != 1 && p->n > 1;
  key->kept = rg_weight_keeps(&p->b);
  key->epilogue = e->scale != 1.0 || e->p > 0;
  key->threads = p->n_threads;
  key->isa = rg_isa();
}

static bool same(const rg_choice *a, const rg_choice *b)
{
  return memcmp(a, b, offsetof(rg_choice, path)) == 0;
}

/* Under the lock: the slot of a product, empty if it was not measured.  Never all are taken. */
static int64_t *slot_of(const rg_choice *key)
{
  uint64_t hash = 0;
  uint32_t word;

  for (size_t at = 0; at < offsetof(rg_choice, path); at += sizeof(word)) {
    memcpy(&word, (const char *)key + at, sizeof(word));
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 29;
  }
  int64_t i = (int64_t)(hash & (uint64_t)(2 * table.room - 1));

  while (table.slot[i] != 0 && !same(&table.choice[table.slot[i] - 1], key)) {
    i = (i + 1) & (2 * table.room - 1);
  }
  return &table.slot[i];
}

/* Under the lock; NULL: it was not measured. */
static rg_choice *find(const rg_choice *key)
{
  int64_t slot = table.n > 0 ? *slot_of(key) : 0;

  return slot > 0 ? &table.choice[slot - 1] : NULL;
}

bool rg_choice_known(rg_choice *key)
{
  rg_spin_enter(&table.lock);
  const rg_choice *found = find(key);

  if (found != NULL) {
    *key = *found;
  }
  rg_spin_leave(&table.lock);
  return found != NULL;
}

/* Under the lock: room for twice as many. */
static rg_status grow(void)
{
  int64_t room = table.room > 0 ? 2 * table.room : 64;
  rg_choice *choice = rg_host_alloc((size_t)room * sizeof(*choice));
  int64_t *slot = rg_host_zeroed(2 * (size_t)room * sizeof(*slot));

  if (choice == NULL || slot == NULL) {
    rg_host_free(choice);
    rg_host_free(slot);
    return RG_ENOMEM;
  }
  if (table.n > 0) {
    memcpy(choice, table.choice, (size_t)table.n * sizeof(*choice));
  }
  rg_host_free(table.choice);
  rg_host_free(table.slot);
  table.choice = choice;
  table.slot = slot;
  table.room = room;
  for (int64_t i = 0; i < table.n; i++) {
    *slot_of(&choice[i]) = i + 1;
  }
  return RG_OK;
}

rg_status rg_choice_put(const rg_choice *choice)
{
  if (choice == NULL || choice->work < 0 || choice->work >= RG_WORK_COUNT) {
    return rg_fail(RG_EARG, "choice: work %d is none", choice == NULL ? 0 : choice->work);
  }
  const int32_t ways = choice->work == RG_WORK_PRODUCT ? RG_GEMM_COUNT : RG_CONV_COUNT;

  if (choice->path <= 0 || choice->path >= ways) {
    return rg_fail(RG_EARG, "choice: path %d is none", choice->path);
  }
  rg_status status = RG_OK;

  rg_spin_enter(&table.lock);
  rg_choice *place = find(choice);
  if (place == NULL && table.n == table.room) {
    status = grow();
  }
  if (status == RG_OK && place == NULL) {
    int64_t *slot = slot_of(choice);

    place = &table.choice[table.n++];
    *slot = table.n;
  }
  if (status == RG_OK) {
    *place = *choice;
    rg_choices_matters(table.matters, true);
    table.matters = true;
  }
  rg_spin_leave(&table.lock);
  return status == RG_OK ? RG_OK : rg_fail(status, "choice: no memory for one more");
}

int64_t rg_choices(void)
{
  rg_spin_enter(&table.lock);
  int64_t n = table.n;

  rg_spin_leave(&table.lock);
  return n;
}

rg_status rg_choice_at(int64_t i, rg_choice *out)
{
  rg_spin_enter(&table.lock);
  bool inside = i >= 0 && i < table.n;

  if (inside) {
    *out = table.choice[i];
  }
  rg_spin_leave(&table.lock);
  return inside ? RG_OK : rg_fail(RG_EARG, "choice: there is no number %lld", (long long)i);
}

void rg_choices_forget(void)
{
  rg_spin_enter(&table.lock);
  rg_host_free(table.choice);
  rg_host_free(table.slot);
  table.choice = NULL;
  table.slot = NULL;
  table.n = table.room = 0;
  rg_choices_matters(table.matters, false);
  table.matters = false;
  rg_spin_leave(&table.lock);
  rg_path_costs_forget();
}

/* -- Measuring --------------------------------------------------------------------------------- */

int32_t rg_choice_rounds(void)
{
  return quiet || rg_choice_pinned() || omp_in_parallel() ? 0 : tuning_rounds;
}

bool rg_choice_forgets(void)
{
  return forgets;
}

bool rg_choice_quiet(bool on)
{
  bool before = quiet;

  quiet = on;
  return before;
}

rg_status rg_choice_measure(rg_ways *ways, int32_t rounds, rg_choice *choice)
{
  const bool before = rg_choice_quiet(true);
  rg_status status = rg_ways_measure(ways, rounds, choice);

  rg_choice_quiet(before);
  return status;
}

/* Paths of a product under trial. */
static rg_status begin_path(void *work, int32_t path)
{
  rg_ready *r = (rg_ready *)work + path;

  RG_TRY(rg_product_prepare_path(r, path));
  return rg_product_go(r);
}

static rg_status go_path(void *work, int32_t path)
{
  return rg_product_go((rg_ready *)work + path);
}

static rg_status measure(const rg_product *p, int32_t rounds, rg_choice *choice)
{
  rg_ready *ready = rg_host_zeroed(RG_GEMM_COUNT * sizeof(*ready));
  bool fits = p->m <= INT32_MAX && p->n <= INT32_MAX && p->k <= INT32_MAX;
  rg_ways ways = { .begin = begin_path,
                   .go = go_path,
                   .work = ready,
                   .standard = rg_product_default(p),
                   .able = { [RG_GEMM_ONEDNN] = fits,
                             [RG_GEMM_OPENBLAS] = p->compute == RG_F32,
                             [RG_GEMM_OWN] = true } };

  if (ready == NULL) {
    return rg_fail(RG_ENOMEM, "choice: no memory to measure a product");
  }
  for (int32_t path = 0; path < RG_GEMM_COUNT; path++) {
    ready[path].p = *p;
  }
  rg_status status = rg_choice_measure(&ways, rounds, choice);

  for (int32_t path = 0; path < RG_GEMM_COUNT; path++) {
    rg_product_end(&ready[path]);
  }
  rg_host_free(ready);
  return status;
}

/* -- Watching ---------------------------------------------------------------------------------- */

/* What was decided on a thread while it was watched. */
static _Thread_local struct {
  int64_t n, room;
  rg_choice *seen;
} watch;

int32_t rg_paths_watch(int32_t on)
{
  int32_t before = watched;

  watched = on != 0;
  rg_host_free(watch.seen);
  watch.seen = NULL;
  watch.n = watch.room = 0;
  rg_choices_matters(before != 0, watched);
  return before;
}

int64_t rg_paths_seen(void)
{
  return watch.n;
}

rg_status rg_path_seen_at(int64_t i, rg_choice *out)
{
  if (i < 0 || i >= watch.n) {
    return rg_fail(RG_EARG, "choice: no decision has number %lld", (long long)i);
  }
  *out = watch.seen[i];
  return RG_OK;
}

rg_status rg_choice_write_down(const rg_choice *choice)
{
  if (!watched || quiet) {
    return RG_OK;
  }
  if (watch.n == watch.room) {
    int64_t room = watch.room > 0 ? 2 * watch.room : 64;
    rg_choice *more = rg_host_alloc((size_t)room * sizeof(*more));

    if (more == NULL) {
      return rg_fail(RG_ENOMEM, "choice: no memory for what is watched");
    }
    if (watch.n > 0) {
      memcpy(more, watch.seen, (size_t)watch.n * sizeof(*more));
    }
    rg_host_free(watch.seen);
    watch.seen = more;
    watch.room = room;
  }
  watch.seen[watch.n++] = *choice;
  return RG_OK;
}

/* -- Choosing ---------------------------------------------------------------------------------- */

/* Is what was measured not to be taken, whatever it says? */
bool rg_choice_pinned(void)
{
  return rg_modes_now()->device.deterministic != 0;
}

/* What was prepared by another path than the default one.  Who turns `deterministic` on in the
** process means the plans there are, too, whatever modes they run under: they leave the path, and
** pay as an eager call does. */
static rg_status go_measured(rg_ready *r)
{
  rg_ready once = { .p = r->p };
  rg_status status;

  if (rg_device_modes_now()->deterministic == 0) {
    return r->measured(r);
  }
  status = rg_product_prepare_path(&once, rg_product_default(&once.p));
  if (status == RG_OK) {
    status = rg_product_go(&once);
  }
  rg_product_end(&once);
  return status;
}

/* By the path that was chosen; by the default one where that path cannot do the product here, which
** a choice that came from elsewhere may say. */
static rg_status prepare_by(rg_ready *r, const rg_choice *choice)
{
  rg_status status = rg_product_prepare_path(r, choice->path);

  if (status == RG_ENOSUP && rg_product_default(&r->p) != choice->path) {
    const rg_ready plain = {
      .p = r->p, .stays = r->stays, .worker = r->worker, .by = RG_BY_EXPECTED
    };

    rg_product_end(r);
    *r = plain;
    return rg_product_prepare_path(r, rg_product_default(&r->p));
  }
  if (choice->path != choice->standard) {
    r->measured = r->go;
    r->go = go_measured;
  }
  return status;
}

/* A path that a choice without times and without a standard path says came from another process. */
int32_t rg_choice_by(const rg_choice *choice)
{
  return choice->rounds > 0                 ? RG_BY_MEASURED
         : choice->standard == RG_GEMM_AUTO ? RG_BY_GIVEN
         : choice->path != choice->standard ? RG_BY_PROBED
                                            : RG_BY_EXPECTED;
}

/* The first run measures; then it is one of the path that was taken.  Where threads share the
** products of a batch the others would be in the way. */
static rg_status go_tuning(rg_ready *r)
{
  int32_t rounds = rg_choice_rounds();
  rg_choice choice;

  key_of(&r->p, &choice);
  choice.path = choice.standard = rg_product_default(&r->p);
  if ((forgets || !rg_choice_known(&choice)) && rounds > 0) {
    RG_TRY(measure(&r->p, rounds, &choice));
    RG_TRY(forgets ? RG_OK : rg_choice_put(&choice));
  }
  RG_TRY(rg_choice_write_down(&choice));
  r->by = rg_choice_by(&choice);
  RG_TRY(prepare_by(r, &choice));
  return rg_product_go(r);
}

rg_status rg_product_prepare_chosen(rg_ready *r)
{
  rg_choice choice;

  key_of(&r->p, &choice);
  bool tunes = tuning_rounds > 0 && !rg_choice_pinned() && !quiet;

  if (rg_choice_pinned() || (tunes && forgets) || !rg_choice_known(&choice)) {
    if (tunes) {
      r->go = go_tuning;
      r->path = "tuning";
      return RG_OK;
    }
    choice.standard = rg_product_default(&r->p);
    choice.path = rg_choice_pinned() ? choice.standard : rg_product_fitted(&r->p, choice.standard);
  }
  RG_TRY(rg_choice_write_down(&choice));
  r->by = rg_choice_pinned() ? RG_BY_PINNED : rg_choice_by(&choice);
  return prepare_by(r, &choice);
}

int32_t rg_product_chosen(const rg_ready *r, rg_choice *out)
{
  if (r->taken == RG_GEMM_AUTO) {
    return RG_BY_NONE;
  }
  key_of(&r->p, out);
  out->isa = r->isa;
  rg_choice_known(out);
  out->path = r->taken;
  if (r->go == go_measured && rg_device_modes_now()->deterministic != 0) {
    out->path = rg_product_default(&r->p);
    return RG_BY_PINNED;
  }
  return r->by;
}
