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

#include "cpu/cpu.h"
#include "cpu/path.h"
#include "ridge/device.h"

enum { ROUNDS_LEAST = 6, ROUNDS_MOST = 99, SAMPLE_NS = 200000 };

_Atomic int32_t rg_choices_matter;

/* This thread's. */
static _Thread_local int32_t tuning_rounds;
static _Thread_local bool forgets; /* what is measured */
static _Thread_local bool watched;

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

  tuning_rounds = rounds <= 0             ? 0
                  : rounds < ROUNDS_LEAST ? ROUNDS_LEAST
                  : rounds > ROUNDS_MOST  ? ROUNDS_MOST
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

static bool known(rg_choice *key)
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
  if (choice == NULL || choice->path <= RG_GEMM_AUTO || choice->path >= RG_GEMM_COUNT) {
    return rg_fail(RG_EARG, "choice: path %d is none", choice == NULL ? 0 : choice->path);
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

/* One path of a product under trial. */
typedef struct trial {
  rg_ready ready;
  int64_t runs; /* a sample is of so many */
  double ns[ROUNDS_MOST];
} trial;

/* Time of one run, over n. */
static rg_status sample(rg_ready *r, int64_t n, double *ns)
{
  int64_t begun = rg_clock_ns();

  for (int64_t i = 0; i < n; i++) {
    RG_TRY(rg_product_go(r));
  }
  *ns = (double)(rg_clock_ns() - begun) / (double)n;
  return RG_OK;
}

/* Prepared and warm, and how many runs make a sample. */
static rg_status begin(trial *t, const rg_product *p, int32_t path)
{
  double ns;

  t->ready = (rg_ready){ .p = *p };
  RG_TRY(rg_product_prepare_path(&t->ready, path));
  RG_TRY(rg_product_go(&t->ready));
  RG_TRY(sample(&t->ready, 1, &ns));
  t->runs = ns >= SAMPLE_NS ? 1 : (int64_t)(SAMPLE_NS / (ns > 1 ? ns : 1));
  return RG_OK;
}

static int in_order(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

/* How many of n sorted values lie outside of the interval of the median at each end: the most with
** which it covers 95 % (order statistics, binomial of 1/2; 0 of 6, 1 of 9, 3 of 15). */
static int32_t outside(int32_t n)
{
  double term = 1, tail = 0;

  for (int32_t i = 0; i < n; i++) {
    term /= 2;
  }
  for (int32_t i = 0; i < n; i++) {
    tail += term;
    if (tail > 0.025) {
      return i - 1;
    }
    term *= (double)(n - i) / (double)(i + 1);
  }
  return 0;
}

/* Median and ends of its interval; sorts. */
static void summarise(double *x, int32_t n, double *median, double *lo, double *hi)
{
  int32_t cut = outside(n);

  qsort(x, (size_t)n, sizeof(double), in_order);
  *median = (x[(n - 1) / 2] + x[n / 2]) / 2;
  *lo = x[cut];
  *hi = x[n - 1 - cut];
}

void rg_choice_decide(double *const ns[RG_GEMM_COUNT], int32_t n, int32_t standard,
                      rg_choice *choice)
{
  choice->path = choice->standard = standard;
  choice->rounds = n;
  for (int32_t path = RG_GEMM_AUTO + 1; path < RG_GEMM_COUNT; path++) {
    double ratio[ROUNDS_MOST];

    if (ns[path] == NULL || path == standard) {
      continue;
    }
    for (int32_t i = 0; i < n; i++) {
      ratio[i] = ns[path][i] / ns[standard][i];
    }
    summarise(ratio, n, &choice->ratio[path], &choice->ratio_lo[path], &choice->ratio_hi[path]);
    summarise(ns[path], n, &choice->ns[path], &choice->lo[path], &choice->hi[path]);
    if (choice->ratio_hi[path] < 1 &&
        (choice->path == standard || choice->ns[path] < choice->ns[choice->path])) {
      choice->path = path;
    }
  }
  summarise(ns[standard], n, &choice->ns[standard], &choice->lo[standard], &choice->hi[standard]);
  choice->ratio[standard] = choice->ratio_lo[standard] = choice->ratio_hi[standard] = 1;
}

/* Microseconds since 1970. */
static int64_t now_us(void)
{
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static rg_status measure(const rg_product *p, int32_t rounds, rg_choice *choice)
{
  int32_t standard = rg_product_default(p);
  bool fits = p->m <= INT32_MAX && p->n <= INT32_MAX && p->k <= INT32_MAX;
  const bool able[RG_GEMM_COUNT] = {
    [RG_GEMM_ONEDNN] = fits, [RG_GEMM_OPENBLAS] = p->compute == RG_F32, [RG_GEMM_OWN] = true
  };
  trial *trials = rg_host_zeroed(RG_GEMM_COUNT * sizeof(trial));
  rg_status status = RG_OK;

  if (trials == NULL) {
    return rg_fail(RG_ENOMEM, "choice: no memory to measure a product");
  }
  for (int32_t path = RG_GEMM_AUTO + 1; path < RG_GEMM_COUNT && status == RG_OK; path++) {
    status = able[path] ? begin(&trials[path], p, path) : RG_OK;
    /* oneDNN may have no such product for this processor */
    if (status == RG_ENOSUP && path != standard) {
      rg_product_end(&trials[path].ready);
      trials[path] = (trial){ 0 };
      status = RG_OK;
    }
  }
  for (int32_t i = 0; i < rounds && status == RG_OK; i++) {
    for (int32_t j = 0; j < RG_GEMM_COUNT && status == RG_OK; j++) {
      trial *t = &trials[(i + j) % RG_GEMM_COUNT]; /* each begins a round in its turn */

      status = t->runs > 0 ? sample(&t->ready, t->runs, &t->ns[i]) : RG_OK;
    }
  }
  for (int32_t path = 0; path < RG_GEMM_COUNT; path++) {
    rg_product_end(&trials[path].ready);
  }
  if (status == RG_OK) {
    double *ns[RG_GEMM_COUNT];

    for (int32_t path = 0; path < RG_GEMM_COUNT; path++) {
      ns[path] = trials[path].runs > 0 ? trials[path].ns : NULL;
    }
    rg_choice_decide(ns, rounds, standard, choice);
    choice->at = now_us();
  }
  rg_host_free(trials);
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

static rg_status write_down(const rg_choice *choice)
{
  if (!watched) {
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
static bool pinned(void)
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
static int32_t chosen_by(const rg_choice *choice)
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
  int32_t rounds = tuning_rounds;
  rg_choice choice;

  key_of(&r->p, &choice);
  choice.path = choice.standard = rg_product_default(&r->p);
  if ((forgets || !known(&choice)) && rounds > 0 && !omp_in_parallel()) {
    tuning_rounds = 0;
    rg_status status = measure(&r->p, rounds, &choice);
    tuning_rounds = rounds;
    RG_TRY(status);
    RG_TRY(forgets ? RG_OK : rg_choice_put(&choice));
  }
  RG_TRY(write_down(&choice));
  r->by = chosen_by(&choice);
  RG_TRY(prepare_by(r, &choice));
  return rg_product_go(r);
}

rg_status rg_product_prepare_chosen(rg_ready *r)
{
  rg_choice choice;

  key_of(&r->p, &choice);
  bool tunes = tuning_rounds > 0 && !pinned();

  if (pinned() || (tunes && forgets) || !known(&choice)) {
    if (tunes) {
      r->go = go_tuning;
      r->path = "tuning";
      return RG_OK;
    }
    choice.standard = rg_product_default(&r->p);
    choice.path = pinned() ? choice.standard : rg_product_fitted(&r->p, choice.standard);
  }
  RG_TRY(write_down(&choice));
  r->by = pinned() ? RG_BY_PINNED : chosen_by(&choice);
  return prepare_by(r, &choice);
}

int32_t rg_product_chosen(const rg_ready *r, rg_choice *out)
{
  if (r->taken == RG_GEMM_AUTO) {
    return RG_BY_NONE;
  }
  key_of(&r->p, out);
  out->isa = r->isa;
  known(out);
  out->path = r->taken;
  if (r->go == go_measured && rg_device_modes_now()->deterministic != 0) {
    out->path = rg_product_default(&r->p);
    return RG_BY_PINNED;
  }
  return r->by;
}
