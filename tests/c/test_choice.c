/* SPDX-License-Identifier: MIT */
/*
** Which path samples speak for: intervals by order statistics, and that one path replaces another
** only where nearly every round says so.  And which path is expected to be the fastest, by numbers
** that are built in and by those that were fitted here.
*/
#include <math.h>
#include <time.h>

#include "cpu/path.h"
#include "tap.h"

enum { OWN = RG_GEMM_OWN, DNNL = RG_GEMM_ONEDNN, BLAS = RG_GEMM_OPENBLAS };

/* Times of n rounds in an order that is not sorted: base, with `step` between neighbours. */
static void spread(double *ns, int n, double base, double step)
{
  for (int i = 0; i < n; i++) {
    ns[i] = base + step * ((i * 7 + 3) % n);
  }
}

static rg_choice decided(double *own, double *dnnl, double *blas, int n)
{
  rg_choice c = { .m = 1 };
  double *ns[RG_WAYS] = { [OWN] = own, [DNNL] = dnnl, [BLAS] = blas };

  rg_choice_decide(ns, n, OWN, &c);
  return c;
}

/* Ends of the interval: which of n sorted values, from 0; exact binomial tails below 2.5 %. */
static void test_interval(void)
{
  static const int rank[][2] = { { 6, 0 },  { 8, 0 },  { 9, 1 },  { 11, 1 },
                                 { 12, 2 }, { 15, 3 }, { 20, 5 }, { 40, 13 } };

  for (size_t i = 0; i < sizeof(rank) / sizeof(rank[0]); i++) {
    int n = rank[i][0], low = rank[i][1];
    double own[64];

    spread(own, n, 100, 1);
    rg_choice c = decided(own, NULL, NULL, n);

    close_to(c.lo[OWN], 100 + low, 0, "the interval begins so far from the first");
    close_to(c.hi[OWN], 100 + n - 1 - low, 0, "and ends as far from the last");
    close_to(c.ns[OWN], 100 + (n - 1) / 2.0, 0, "around the median");
    is_int(c.path, OWN, "alone it is taken");
    is_int(c.rounds, n, "rounds are told");
    close_to(c.ns[DNNL] + c.hi[BLAS], 0, 0, "paths that cannot do it have no times");
  }
}

static void test_rule(void)
{
  double own[15], dnnl[15], blas[15];

  spread(own, 15, 100, 1);
  for (int i = 0; i < 15; i++) {
    dnnl[i] = own[i] * 0.9;
    blas[i] = own[i] * 0.8;
  }
  rg_choice c = decided(own, dnnl, blas, 15);
  is_int(c.path, BLAS, "the fastest of two that are faster");
  close_to(c.ratio[BLAS], 0.8, 1e-12, "the ratio of the rounds is told");
  ok(c.ratio_lo[BLAS] <= c.ratio[BLAS] && c.ratio[BLAS] <= c.ratio_hi[BLAS], "in its interval");
  close_to(c.ratio[OWN], 1, 0, "the standard path over itself");
  is_int(c.standard, OWN, "and what it is in place of");

  spread(own, 15, 100, 1);
  for (int i = 0; i < 15; i++) {
    dnnl[i] = own[i] * 0.7;
    blas[i] = own[i] * 0.8;
  }
  is_int(decided(own, dnnl, blas, 15).path, DNNL, "whichever comes first");

  /* paired by round: their ranges overlap wholly, and each round says the same */
  spread(own, 15, 100, 50);
  for (int i = 0; i < 15; i++) {
    dnnl[i] = own[i] * 0.99;
  }
  is_int(decided(own, dnnl, NULL, 15).path, DNNL, "one per cent in each round is enough");

  /* rounds that speak against it: 3 of 15 may, 4 may not */
  for (int against = 3; against <= 4; against++) {
    spread(own, 15, 100, 1);
    for (int i = 0; i < 15; i++) {
      dnnl[i] = own[i] * (i < against ? 1.1 : 0.5);
    }
    is_int(decided(own, dnnl, NULL, 15).path, against == 3 ? DNNL : OWN,
           against == 3 ? "three rounds against it" : "four rounds against it");
  }
  spread(own, 15, 100, 1);
  spread(dnnl, 15, 100, 1);
  is_int(decided(own, dnnl, NULL, 15).path, OWN, "between equals the standard path stays");
  spread(own, 6, 100, 1);
  for (int i = 0; i < 6; i++) {
    dnnl[i] = own[i] * 0.9;
  }
  is_int(decided(own, dnnl, NULL, 6).path, DNNL, "six of six");
}

/* The path that is expected to be the fastest, of a product of contiguous factors, the left one of
** a type of its own. */
static int32_t expected_of(int64_t m, int64_t k, int64_t n, int32_t dtype, int32_t a_dtype,
                           bool kept, bool across)
{
  rg_product p = { .m = m,
                   .n = n,
                   .k = k,
                   .compute = dtype,
                   .n_threads = 1,
                   .a_dtype = a_dtype,
                   .c_dtype = dtype,
                   .a_row = across ? 1 : k,
                   .a_col = across ? m : 1,
                   .c_row = n,
                   .epilogue = { .scale = 1 } };

  p.b = (rg_weight){ .k = k, .n = n, .split_k = k, .split_n = n };
  p.b.piece[0] = (rg_piece){ .data = &p, .dtype = dtype, .keeps = kept, .row = n, .col = 1 };
  return rg_product_default(&p);
}

static int32_t expected(int64_t m, int64_t k, int64_t n, int32_t dtype, bool kept, bool across)
{
  return expected_of(m, k, n, dtype, dtype, kept, across);
}

static void test_default(void)
{
  static const int32_t levels[] = { RG_ISA_AVX2, RG_ISA_AVX512, RG_ISA_AVX512_BF16 };
  int32_t before = rg_isa();

  is_status(rg_set_isa(RG_ISA_BASE), RG_OK, "without AVX2");
  is_int(expected(256, 2048, 1024, RG_F32, true, false), DNNL, "oneDNN takes all");
  for (int i = 0; i < 3; i++) {
    if (rg_set_isa(levels[i]) != RG_OK) {
      continue;
    }
    bool pairs = levels[i] == RG_ISA_AVX512_BF16;

    ok(expected(101, 380, 1, RG_F32, true, false) != OWN, "one column is no panel");
    ok(expected(259, 494, 2, RG_F32, false, false) != OWN, "nor are two");
    ok(expected(1, 1000, 1, RG_F32, false, false) == OWN, "a dot product reads both in place");
    is_int(expected(101, 380, 1, RG_F32, true, true), OWN, "nobody measured rows across");
    is_int(expected(32, 64, 128, RG_F32, true, false), OWN, "whole panels of a few rows");
    is_int(expected(1, 64, 64, RG_F32, true, false), OWN, "one row and a packed weight");
    ok(expected(1, 64, 640, RG_F32, false, false) != OWN, "one row and a plain factor");
    is_int(expected(64, 64, 640, RG_F32, false, false), OWN, "many rows and a plain factor");
    is_int(expected(410, 4, 9, RG_BF16, true, false), pairs ? DNNL : OWN,
           "four steps of 32 in bf16");
    is_int(expected(256, 2048, 1024, RG_BF16, true, false), OWN, "whole panels in bf16");
    is_int(expected(100, 64, 20, RG_F32, true, false), OWN, "a seventh less is not worth it");
    is_int(expected_of(101, 380, 1, RG_F32, RG_BF16, true, false), OWN, "nor a factor converted");
    is_int(expected((int64_t)1 << 33, 2, 1, RG_F32, true, false), OWN, "more than libraries count");
  }
  is_status(rg_set_isa(before), RG_OK, "as before");
}

/* A contiguous product of plain factors, or with a weight that is kept. */
static rg_product plain_product(int64_t m, int64_t k, int64_t n, int32_t dtype, bool kept)
{
  static float nothing;
  rg_product p = { .m = m,
                   .n = n,
                   .k = k,
                   .compute = dtype,
                   .n_threads = 1,
                   .a_dtype = dtype,
                   .c_dtype = dtype,
                   .a_row = k,
                   .a_col = 1,
                   .c_row = n,
                   .epilogue = { .scale = 1 } };

  p.b = (rg_weight){ .k = k, .n = n, .split_k = k, .split_n = n };
  p.b.piece[0] = (rg_piece){ .data = &nothing, .dtype = dtype, .keeps = kept, .row = n, .col = 1 };
  return p;
}

static void test_terms(void)
{
  static const double library[] = {
    1, 3 * 40 * 33, 3 * 40, 3 * 33, 33 * 40, 3, 40, 3 * 33 * 48, 0
  };
  static const double own[] = { 1, 3 * 64 * 33, 3 * 64, 3 * 33, 33 * 64, 3, 64, 33, 3 };
  static const double whole[] = { 1, 3 * 64 * 33, 3 * 64, 3 * 33, 33 * 64, 3, 64, 0, 0 };
  double x[RG_PATH_TERMS];

  for (int i = 0; i < RG_PATH_TERMS; i++) {
    rg_path_terms(3, 40, 33, RG_F32, BLAS, x);
    close_to(x[i], library[i], 0, "a library: vectors of columns");
    rg_path_terms(3, 40, 33, RG_F32, OWN, x);
    close_to(x[i], own[i], 0, "own kernels: a panel that is not full");
    rg_path_terms(3, 64, 33, RG_F32, OWN, x);
    close_to(x[i], whole[i], 0, "own kernels: whole panels");
  }
  int32_t before = rg_isa();
  if (rg_set_isa(RG_ISA_AVX512_BF16) == RG_OK) {
    rg_path_terms(3, 64, 33, RG_BF16, OWN, x);
    close_to(x[1], 3 * 64 * 64, 0, "pairs of bf16 in steps of 32");
    rg_path_terms(3, 64, 33, RG_BF16, DNNL, x);
    close_to(x[1], 3 * 64 * 33, 0, "which libraries do not take");
  }
  is_status(rg_set_isa(before), RG_OK, "as before");
}

static rg_path_costs costs_of(double own, double dnnl, double blas)
{
  rg_path_costs c = { .compute = RG_F32, .kept = 0, .threads = 1, .isa = rg_isa() };

  c.ns[OWN][0] = own;
  c.ns[DNNL][0] = dnnl;
  c.ns[BLAS][0] = blas;
  return c;
}

static void puts_costs(rg_path_costs c)
{
  is_status(rg_path_costs_put(&c), RG_OK, "numbers are put");
}

static void refused(rg_path_costs c, const char *what)
{
  is_status(rg_path_costs_put(&c), RG_EARG, what);
}

static int32_t fitted(int64_t m, int64_t k, int64_t n, int32_t dtype, bool kept, int32_t standard)
{
  rg_product p = plain_product(m, k, n, dtype, kept);

  return rg_product_fitted(&p, standard);
}

/* What was fitted decides, for its kind of products alone, and where it says a tenth at least. */
static void test_fitted(void)
{
  int32_t matter = rg_choices_matter;
  rg_path_costs c;

  is_int(fitted(4, 5, 6, RG_F32, false, DNNL), DNNL, "nothing was fitted");
  puts_costs(costs_of(100, 90, 95));
  is_int(rg_choices_matter, matter + 1, "products ask for it");
  is_int(fitted(4, 5, 6, RG_F32, false, OWN), DNNL, "a tenth less than own kernels");
  is_int(fitted(4, 5, 6, RG_F32, false, BLAS), BLAS, "half as much is not enough");
  is_int(fitted(4, 5, 6, RG_F32, false, DNNL), DNNL, "the fastest itself");
  puts_costs(costs_of(100, 91, 92));
  is_int(rg_path_costs_count(), 1, "in place of what there was");
  is_int(fitted(4, 5, 6, RG_F32, false, OWN), OWN, "nine hundredths are no tenth");
  puts_costs(costs_of(100, 80, 70));
  is_int(fitted(4, 5, 6, RG_F32, false, OWN), BLAS, "the least of two");
  puts_costs(costs_of(100, 70, 80));
  is_int(fitted(4, 5, 6, RG_F32, false, OWN), DNNL, "whichever comes first");
  is_int(fitted(4, 5, 6, RG_F32, true, OWN), OWN, "not of a weight that is kept");
  is_int(fitted(4, 5, 6, RG_BF16, false, OWN), OWN, "nor of another type");
  is_int(fitted((int64_t)1 << 33, 2, 1, RG_F32, false, OWN), OWN, "nor more than libraries count");
  rg_product p = plain_product(4, 5, 6, RG_F32, false);
  p.n_threads = 2;
  is_int(rg_product_fitted(&p, OWN), OWN, "nor by more threads");
  p.n_threads = 1;
  p.a_row = 1;
  p.a_col = 4;
  is_int(rg_product_fitted(&p, OWN), OWN, "nor of rows across");
  p = plain_product(1, 5, 6, RG_F32, false);
  p.b.piece[0].row = 1;
  p.b.piece[0].col = 5;
  is_int(rg_product_fitted(&p, OWN), OWN, "nor of a row that is read in place");
  int32_t before = rg_isa();
  if (before != RG_ISA_BASE && rg_set_isa(RG_ISA_BASE) == RG_OK) {
    is_int(fitted(4, 5, 6, RG_F32, false, OWN), OWN, "nor by other instructions");
    is_status(rg_set_isa(before), RG_OK, "as before");
  }
  puts_costs(costs_of(100, 0, 80));
  is_int(fitted(4, 5, 6, RG_F32, false, OWN), BLAS, "a path without numbers is none");
  is_int(fitted(4, 5, 6, RG_F32, false, DNNL), DNNL, "and nothing is held against it");
  c = costs_of(100, 90.5, 1);
  c.compute = RG_BF16;
  puts_costs(c);
  is_int(fitted(4, 5, 6, RG_BF16, false, OWN), DNNL, "OpenBLAS has no product of bf16");
  is_int(rg_path_costs_count(), 2, "two kinds");
  c = costs_of(3, 2, 1);
  for (int32_t isa = 0; isa < RG_ISA_COUNT; isa++) {
    c.isa = isa;
    c.threads = 3;
    puts_costs(c);
  }
  is_int(rg_path_costs_count(), 2 + RG_ISA_COUNT, "one for each set of instructions");
  c.isa = -1;
  refused(c, "none below the first");
  c.isa = RG_ISA_COUNT;
  refused(c, "nor above the last");
  c = costs_of(0, 0, 0);
  c.ns[OWN][3] = 1;
  c.ns[DNNL][5] = 10;
  puts_costs(c);
  is_int(fitted(4, 3, 3, RG_F32, false, OWN), OWN, "m k = 12 and 10 m = 40");
  is_int(fitted(4, 30, 3, RG_F32, false, OWN), DNNL, "deeper");
  is_int(fitted(3, 30, 3, RG_F32, false, OWN), OWN, "three rows are not fitted");
  rg_choices_forget();
  is_int(rg_path_costs_count(), 0, "forgotten with all choices");
  is_int(rg_choices_matter, matter, "nobody asks any more");
  rg_choices_forget();
  is_int(rg_choices_matter, matter, "also twice");
  is_int(fitted(4, 30, 3, RG_F32, false, OWN), OWN, "and the standard path is back");
}

static void test_costs(void)
{
  rg_path_costs c = costs_of(1, 2, 3), seen;

  is_status(rg_path_costs_put(NULL), RG_EARG, "there are none");
  for (int path = DNNL; path < RG_GEMM_COUNT; path++) {
    for (int i = 0; i < RG_PATH_TERMS; i++) {
      c = costs_of(1, 2, 3);
      c.ns[path][i] = -1;
      refused(c, "a time below 0");
      c.ns[path][i] = NAN;
      refused(c, "no number");
      c.ns[path][i] = INFINITY;
      refused(c, "no time ends there");
    }
  }
  refused(costs_of(0, 0, 0), "no path does it");
  c = costs_of(1, 2, 3);
  c.compute = RG_F16;
  refused(c, "another type");
  c = costs_of(1, 2, 3);
  c.threads = 0;
  refused(c, "no thread");
  c = costs_of(1, 2, 3);
  c.isa = RG_ISA_COUNT;
  refused(c, "instructions that are none");
  c.isa = -1;
  refused(c, "nor below the first");
  c = costs_of(1, 2, 3);
  c.kept = 2;
  refused(c, "kept or not");
  is_int(rg_path_costs_count(), 0, "nothing of it is there");
  for (int i = 1; i <= 40; i++) {
    c = costs_of(i, 2 * i, 3);
    c.threads = i;
    c.kept = i % 2;
    puts_costs(c);
  }
  is_int(rg_path_costs_count(), 40, "as many as are put");
  for (int i = 1; i <= 40; i++) {
    is_status(rg_path_costs_at(i - 1, &seen), RG_OK, "each is told");
    is_int(seen.threads, i, "in their order");
    close_to(seen.ns[DNNL][0], 2 * i, 0, "with its numbers");
  }
  is_status(rg_path_costs_at(40, &seen), RG_EARG, "none behind the last");
  is_status(rg_path_costs_at(-1, &seen), RG_EARG, "nor before the first");
  rg_choices_forget();
  rg_alloc_fail_at(1);
  c = costs_of(1, 2, 3);
  is_status(rg_path_costs_put(&c), RG_ENOMEM, "no memory");
  rg_alloc_fail_at(0);
  is_int(rg_path_costs_count(), 0, "and nothing is put");
  is_int(fitted(4, 5, 6, RG_F32, false, DNNL), DNNL, "nor taken");
  puts_costs(c);
  rg_choices_forget();
}

/* What is written down of a product: what follows it and its threads tell it apart. */
/* Many choices, more than there is room for at first: each of them is found again, and another put
** in its place. */
static void test_many(void)
{
  enum { MANY = 300 };
  rg_choice c = { .k = 5, .compute = RG_F32, .threads = 1 }, found;
  int right = 0;

  rg_choices_forget();
  for (int round = 0; round < 2; round++) {
    for (int64_t i = 0; i < MANY; i++) {
      c.m = i % 20 + 1;
      c.n = i / 20 + 1;
      c.path = (i + round) % 2 == 0 ? DNNL : BLAS;
      c.rounds = (int32_t)(i + round);
      is_status(rg_choice_put(&c), RG_OK, "a choice");
    }
    is_int(rg_choices(), MANY, "each product once");
  }
  for (int64_t i = 0; i < MANY; i++) {
    is_status(rg_choice_at(i, &found), RG_OK, "one of them");
    right += found.m == i % 20 + 1 && found.n == i / 20 + 1 && found.k == 5 &&
             found.path == ((i + 1) % 2 == 0 ? DNNL : BLAS) && found.rounds == i + 1;
  }
  is_int(right, MANY, "is what was put last");
  rg_choices_forget();
  is_int(rg_choices(), 0, "forgotten");
}

static void test_key(void)
{
  float a[12] = { 0 }, b[12] = { 0 }, c[9];

  for (int i = 0; i < 3; i++) {
    rg_ready r = { .p = { .m = 3, .n = 3, .k = 4, .compute = RG_F32, .n_threads = 1 + i } };
    rg_choice seen;

    r.p.a = a;
    r.p.a_row = 4;
    r.p.a_col = 1;
    r.p.b = (rg_weight){ .k = 4, .n = 3, .split_k = 4, .split_n = 3 };
    r.p.b.piece[0] = (rg_piece){ .data = b, .dtype = RG_F32, .row = 3, .col = 1 };
    r.p.c = c;
    r.p.c_row = 3;
    r.p.epilogue = (rg_epilogue){ .scale = i == 1 ? 2 : 1, .p = i == 2 ? 0.5 : 0 };
    r.p.a_dtype = r.p.c_dtype = RG_F32;
    rg_paths_watch(1);
    is_status(rg_product_prepare(&r), RG_OK, "a product that is watched");
    is_int(rg_paths_seen(), 1, "is one decision");
    is_status(rg_path_seen_at(0, &seen), RG_OK, "that is told");
    is_int(seen.epilogue, i > 0, "a scale or dropout is told");
    is_int(seen.threads, 1 + i, "with its threads");
    rg_paths_watch(0);
    rg_product_end(&r);
  }
}

/* By every path the same, into rows that lie apart, with a bias whose elements do. */
static void test_finish(void)
{
  enum { M = 5, N = 3, K = 4, ROW = 8 };
  static const int32_t acts[] = { RG_ACT_NONE, RG_ACT_RELU, RG_ACT_GELU };
  rg_tensor *pairs = NULL, *bias = NULL;
  float a[M * K], b[K * N];

  if (rg_empty(RG_F32, RG_CPU, (const int64_t[]){ 2 * N }, 1, &pairs) != RG_OK ||
      rg_narrow(pairs, 0, 0, N, 2, &bias) != RG_OK) {
    tap_bail(rg_error_message());
  }
  for (int i = 0; i < 2 * N; i++) {
    ((float *)pairs->_data)[i] = (float)(i - 2);
  }
  for (int i = 0; i < M * K; i++) {
    a[i] = (float)(i % 7 - 3);
  }
  for (int i = 0; i < K * N; i++) {
    b[i] = (float)(i % 5 - 2);
  }
  for (int act = 0; act < 3; act++) {
    float c[RG_GEMM_COUNT][M * ROW];

    for (int32_t path = DNNL; path < RG_GEMM_COUNT; path++) {
      rg_ready r = { .p = { .m = M, .n = N, .k = K, .compute = RG_F32, .n_threads = 1 } };

      for (int i = 0; i < M * ROW; i++) {
        c[path][i] = -7;
      }
      r.p.a = a;
      r.p.a_row = K;
      r.p.a_col = 1;
      r.p.b = (rg_weight){ .k = K, .n = N, .split_k = K, .split_n = N };
      r.p.b.piece[0] = (rg_piece){ .data = b, .dtype = RG_F32, .row = N, .col = 1 };
      r.p.c = c[path];
      r.p.c_row = ROW;
      r.p.epilogue = (rg_epilogue){ .scale = 1, .bias = bias, .act = acts[act] };
      r.p.a_dtype = r.p.c_dtype = RG_F32;
      is_status(rg_product_prepare_path(&r, path), RG_OK, "a path");
      is_status(rg_product_go(&r), RG_OK, "is gone");
      rg_product_end(&r);
    }
    for (int i = 0; i < M; i++) {
      for (int j = 0; j < ROW; j++) {
        float sum = j < N ? (float)(2 * j - 2) : -7;

        for (int l = 0; j < N && l < K; l++) {
          sum += a[i * K + l] * b[l * N + j];
        }
        if (act == 1 && j < N) {
          sum = sum > 0 ? sum : 0;
        }
        for (int32_t path = DNNL; path < RG_GEMM_COUNT; path++) {
          close_to(c[path][i * ROW + j], act < 2 ? sum : c[OWN][i * ROW + j], 0, "an element");
        }
      }
    }
  }
  rg_tensor_release(bias);
  rg_tensor_release(pairs);
}

/* oneDNN adds a bias of the factors' type itself. */
static void test_bias_of_pairs(void)
{
  enum { M = 7, N = 3, K = 4 };
  const int64_t sizes[][2] = { { M, K }, { K, N }, { 1, N }, { M, N } };
  rg_tensor *x[4] = { 0 };

  if (rg_machine_facts()->isa_level < RG_ISA_AVX512) {
    return; /* computed in f32 */
  }
  for (int i = 0; i < 4; i++) {
    if (rg_empty(RG_BF16, RG_CPU, sizes[i], 2, &x[i]) != RG_OK || rg_fill_(x[i], i + 1) != RG_OK) {
      tap_bail(rg_error_message());
    }
  }
  rg_tensor *bias = NULL;
  if (rg_select(x[2], 0, 0, &bias) != RG_OK) {
    tap_bail(rg_error_message());
  }
  rg_ready r = { .p = { .m = M, .n = N, .k = K, .compute = RG_BF16, .n_threads = 1 } };
  r.p.a = x[0]->_data;
  r.p.a_row = K;
  r.p.a_col = 1;
  r.p.b = rg_weight_of(x[1], false);
  r.p.c = x[3]->_data;
  r.p.c_row = N;
  r.p.epilogue = (rg_epilogue){ .scale = 1, .bias = bias };
  r.p.a_dtype = r.p.c_dtype = RG_BF16;
  is_status(rg_product_prepare_path(&r, DNNL), RG_OK, "oneDNN takes bf16");
  ok(r.plain_epilogue, "and a bias of bf16");
  is_status(rg_product_go(&r), RG_OK, "is gone");
  rg_product_end(&r);
  for (int i = 0; i < M * N; i++) {
    close_to(rg_element_f32(x[3]->_data, RG_BF16, i), K * 1 * 2 + 3, 0, "sum and bias");
  }
  rg_tensor_release(bias);
  for (int i = 0; i < 4; i++) {
    rg_tensor_release(x[i]);
  }
}

static void test_tuning(void)
{
  is_int(rg_tuning(9), 0, "off at first");
  is_int(rg_tuning(1), 9, "what was before");
  is_int(rg_tuning(1 << 30), 6, "at least as many as an interval needs");
  is_int(rg_tuning(-1), 99, "and at most as many as there is room for");
  is_int(rg_tuning(0), 0, "off again");
  is_int(rg_tuning_keeps(0), 1, "what is measured is remembered");
  is_int(rg_tuning_keeps(7), 0, "unless somebody says so");
  is_int(rg_tuning_keeps(1), 1, "and again");
}

/* A choice that is measured here says when that was. */
static void test_when(void)
{
  const int64_t shape[] = { 200, 200 };
  rg_tensor *x = NULL;
  rg_tensor *y = NULL;
  rg_choice c = { 0 };

  rg_choices_forget();
  is_int(rg_tuning(9), 0, "products are measured");
  is_status(rg_empty(RG_F32, RG_CPU, shape, 2, &x), RG_OK, "a matrix");
  is_status(rg_fill_(x, 1), RG_OK, "of ones");
  const int64_t before = (int64_t)time(NULL) * 1000000;

  is_status(rg_matmul(x, x, &y), RG_OK, "its square");
  is_int(rg_choices(), 1, "is measured once");
  is_status(rg_choice_at(0, &c), RG_OK, "which is told");
  ok(c.at >= before && c.at < before + 600000000, "with the time of day, in microseconds");
  is_int(rg_tuning(0), 9, "off again");
  rg_tensor_release(y);
  rg_tensor_release(x);
  rg_choices_forget();
}

int main(void)
{
  test_interval();
  test_rule();
  test_default();
  test_terms();
  test_fitted();
  test_costs();
  test_many();
  test_key();
  test_finish();
  test_bias_of_pairs();
  test_tuning();
  test_when();
  return done();
}
