/* SPDX-License-Identifier: MIT */
/*
** Which path a product takes by what was fitted on this machine: times of some products by every
** path (ridge.backend.probe), as a sum of terms (path_cost.c).
**
** A kind of products has numbers of its own: its type, whether b is kept packed, threads and
** instruction set.  There are as many as somebody probed, some four for each number of threads.
** Own kernels take one to three rows by other loops, which the terms do not describe: fits that
** were asked for such took paths up to six times as slow (results/kept/product_paths.txt).
*/
#include <math.h>
#include <string.h>

#include "cpu/cpu.h"
#include "cpu/path.h"

/* What is fitted is some 10 % off: between what is expected to be equal the default path stays. */
static const double LESS = 1.1;

static struct {
  rg_spin lock;
  int64_t n, room;
  rg_path_costs *costs;
} table;

static bool same_kind(const rg_path_costs *c, int32_t compute, int32_t kept, int32_t threads,
                      int32_t isa)
{
  return c->compute == compute && c->kept == kept && c->threads == threads && c->isa == isa;
}

/* Under the lock; NULL: such products were not measured. */
static rg_path_costs *find(int32_t compute, int32_t kept, int32_t threads, int32_t isa)
{
  for (int64_t i = 0; i < table.n; i++) {
    if (same_kind(&table.costs[i], compute, kept, threads, isa)) {
      return &table.costs[i];
    }
  }
  return NULL;
}

/* Does the path do such products at all? */
static bool does(const double ns[RG_PATH_TERMS])
{
  for (int32_t i = 0; i < RG_PATH_TERMS; i++) {
    if (ns[i] > 0) {
      return true;
    }
  }
  return false;
}

/* What is to be said against it; NULL: nothing. */
static const char *wrong(const rg_path_costs *costs)
{
  bool any = false;

  if (costs == NULL) {
    return "there are none";
  }
  if (costs->compute != RG_F32 && costs->compute != RG_BF16) {
    return "products are fitted in f32 and bf16";
  }
  if (costs->threads < 1 || costs->isa < 0 || costs->isa >= RG_ISA_COUNT ||
      (costs->kept != 0 && costs->kept != 1)) {
    return "there is no such kind of products";
  }
  for (int32_t path = RG_GEMM_AUTO + 1; path < RG_GEMM_COUNT; path++) {
    for (int32_t i = 0; i < RG_PATH_TERMS; i++) {
      if (!(costs->ns[path][i] >= 0 && costs->ns[path][i] < HUGE_VAL)) {
        return "a time is below 0, or no number";
      }
    }
    any = any || does(costs->ns[path]);
  }
  return any ? NULL : "no path does such products";
}

/* Under the lock: room for twice as many. */
static rg_status grow(void)
{
  int64_t room = table.room > 0 ? 2 * table.room : 8;
  rg_path_costs *costs = rg_host_alloc((size_t)room * sizeof(*costs));

  if (costs == NULL) {
    return RG_ENOMEM;
  }
  if (table.n > 0) {
    memcpy(costs, table.costs, (size_t)table.n * sizeof(*costs));
  }
  rg_host_free(table.costs);
  table.costs = costs;
  table.room = room;
  return RG_OK;
}

rg_status rg_path_costs_put(const rg_path_costs *costs)
{
  const char *said = wrong(costs);
  rg_status status = RG_OK;

  if (said != NULL) {
    return rg_fail(RG_EARG, "costs of paths: %s", said);
  }
  rg_spin_enter(&table.lock);
  rg_path_costs *place = find(costs->compute, costs->kept, costs->threads, costs->isa);
  if (place == NULL && table.n == table.room) {
    status = grow();
  }
  if (place == NULL && status == RG_OK) {
    rg_choices_matters(table.n > 0, true);
    place = &table.costs[table.n++];
  }
  if (status == RG_OK) {
    *place = *costs;
  }
  rg_spin_leave(&table.lock);
  return status == RG_OK ? RG_OK : rg_fail(status, "costs of paths: no memory for one kind more");
}

int64_t rg_path_costs_count(void)
{
  rg_spin_enter(&table.lock);
  int64_t n = table.n;

  rg_spin_leave(&table.lock);
  return n;
}

rg_status rg_path_costs_at(int64_t i, rg_path_costs *out)
{
  rg_spin_enter(&table.lock);
  bool inside = i >= 0 && i < table.n;

  if (inside) {
    *out = table.costs[i];
  }
  rg_spin_leave(&table.lock);
  return inside ? RG_OK : rg_fail(RG_EARG, "costs of paths: there is no number %lld", (long long)i);
}

void rg_path_costs_forget(void)
{
  rg_spin_enter(&table.lock);
  rg_choices_matters(table.n > 0, false);
  rg_host_free(table.costs);
  table.costs = NULL;
  table.n = table.room = 0;
  rg_spin_leave(&table.lock);
}

static int32_t least(const rg_path_costs *c, const rg_product *p, int32_t standard)
{
  double ns = rg_path_expected(c->ns[standard], p, standard) / LESS;
  int32_t best = standard;

  if (p->m < RG_PATH_ROWS || !does(c->ns[standard])) {
    return standard;
  }
  for (int32_t path = RG_GEMM_AUTO + 1; path < RG_GEMM_COUNT; path++) {
    if (path == standard || !does(c->ns[path]) ||
        (path == RG_GEMM_OPENBLAS && p->compute != RG_F32)) {
      continue;
    }
    double other = rg_path_expected(c->ns[path], p, path);

    if (other < ns) {
      ns = other;
      best = path;
    }
  }
  return best;
}

int32_t rg_path_costs_choose(const rg_path_costs *costs, int64_t m, int64_t n, int64_t k,
                             int32_t standard)
{
  const rg_product p = { .m = m, .n = n, .k = k, .compute = costs->compute };

  return least(costs, &p, standard);
}

int32_t rg_product_fitted(const rg_product *p, int32_t standard)
{
  if (!rg_path_is_plain(p) || rg_product_takes_row(p)) {
    return standard;
  }
  rg_spin_enter(&table.lock);
  const rg_path_costs *c = find(p->compute, rg_weight_keeps(&p->b), p->n_threads, rg_isa());
  int32_t path = c != NULL ? least(c, p, standard) : standard;

  rg_spin_leave(&table.lock);
  return path;
}
