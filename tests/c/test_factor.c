/* SPDX-License-Identifier: MIT */
/*
** Factored weights and the layers that take them against their definitions
** (docs/why/definitions.md 1.1): the term-by-term formula, the law of the initial error, the
** three forms of the signs, seeds, counts, the best low-rank factors.
*/
#include "ridge.h"
#include "sketch.h"
#include "tap.h"

/* -- Distances -------------------------------------------------------------------------------- */

static double distance(const rg_tensor *x, const rg_tensor *y)
{
  double sum = 0;

  for (int64_t i = 0; i < x->_shape[0]; i++) {
    for (int64_t j = 0; j < x->_shape[1]; j++) {
      double d = at2(x, i, j) - at2(y, i, j);
      sum += d * d;
    }
  }
  return sqrt(sum);
}

static double norm(const rg_tensor *x)
{
  double sum = 0;

  for (int64_t i = 0; i < x->_shape[0]; i++) {
    for (int64_t j = 0; j < x->_shape[1]; j++) {
      sum += at2(x, i, j) * at2(x, i, j);
    }
  }
  return sqrt(sum);
}

/* -- The formula ------------------------------------------------------------------------------- */

/* 1/(2T) sum_t [(x S1) U1 + (x U2) S2] + b for row i and column j. */
static double by_terms(const sketch *k, const rg_tensor *x, int64_t i, int64_t j)
{
  const rg_tensor *s1 = k->s1, *u1 = k->u1, *u2 = k->u2, *s2 = k->s2, *bias = k->bias;
  int64_t terms = s1->_shape[0], n_in = s1->_shape[1], rank = s1->_shape[2];
  double sum = 0;

  for (int64_t t = 0; t < terms; t++) {
    for (int64_t r = 0; r < rank; r++) {
      double z1 = 0, z2 = 0;

      for (int64_t l = 0; l < n_in; l++) {
        z1 += at2(x, i, l) * at3(s1, t, l, r);
        z2 += at2(x, i, l) * at3(u2, t, l, r);
      }
      sum += z1 * at3(u1, t, r, j) + z2 * at3(s2, t, r, j);
    }
  }
  sum /= 2.0 * (double)terms;
  return bias != NULL ? sum + at(bias, &j) : sum;
}

static void test_formula(void)
{
  static const int32_t acts[] = { RG_ACT_NONE, RG_ACT_RELU };

  for (int a = 0; a < 2; a++) {
    rg_tensor *drawn = random_matrix(22, 37, 7), *x = random_matrix(9, 37, 1);
    rg_tensor *y = NULL, *yb = NULL, *w = NULL, *dense = NULL;
    sketch layer = { .terms = 3, .rank = 5, .form = RG_SIGNS_STORED, .act = acts[a] };
    sketch bits = layer;
    double worst = 0, apart = 0, off = 0;

    layer.bias = random_vector(22, 4);
    bits.bias = rg_tensor_retain(layer.bias);
    is_status(sketch_of(drawn, &layer, 7), RG_OK, "a sketched layer");
    is_status(forward(&layer, x, &y), RG_OK, "forward");
    bits.form = a == 0 ? RG_SIGNS_BITS : RG_SIGNS_SEED;
    is_status(sketch_of(drawn, &bits, 7), RG_OK, "the same with bits, or a seed");
    is_status(forward(&bits, x, &yb), RG_OK, "forward");
    is_status(weight_of(&bits, &w), RG_OK, "its effective weight");
    is_status(rg_linear(x, w, bits.bias, acts[a], &dense), RG_OK, "as a dense layer");
    for (int64_t i = 0; i < 9; i++) {
      for (int64_t j = 0; j < 22; j++) {
        double want = by_terms(&layer, x, i, j);

        want = acts[a] == RG_ACT_RELU ? fmax(want, 0) : want;
        worst = fmax(worst, fabs(want - at2(y, i, j)));
        apart = fmax(apart, fabs(at2(y, i, j) - at2(yb, i, j)));
        off = fmax(off, fabs(at2(y, i, j) - at2(dense, i, j)));
      }
    }
    close_to(worst, 0, 1e-5, "forward is the sum over terms");
    close_to(apart, 0, 1e-6, "the forms of the signs agree");
    close_to(off, 0, 1e-5, "the effective weight does the same");
    rg_tensor_release(x);
    rg_tensor_release(y);
    rg_tensor_release(yb);
    rg_tensor_release(w);
    rg_tensor_release(dense);
    rg_tensor_release(drawn);
    sketch_done(&layer);
    sketch_done(&bits);
  }
}

/* The same with what is float in bf16. */
static sketch in_bf16(const sketch *k)
{
  sketch out = { .n_in = k->n_in,
                 .n_out = k->n_out,
                 .terms = k->terms,
                 .rank = k->rank,
                 .form = k->form,
                 .act = k->act };

  for (int32_t i = 0; i < RG_SKETCH_PARTS && k->part[i] != NULL; i++) {
    if (k->part[i]->_dtype != RG_F32) {
      out.part[i] = rg_tensor_retain(k->part[i]);
    } else {
      is_status(rg_cast(k->part[i], RG_BF16, &out.part[i]), RG_OK, "bf16");
    }
  }
  is_status(rg_cast(k->bias, RG_BF16, &out.bias), RG_OK, "bf16");
  return out;
}

/* Sizes at which the fixed signs have their own way, in every way, form, plan and odd number. */
static void try_ways(int64_t rows, int64_t n_in, int64_t n_out, int64_t terms, int64_t rank)
{
  static const char *const ways[] = { "auto", "onednn", "openblas" };
  rg_tensor *x = random_matrix(rows, n_in, 6), *drawn = random_matrix(n_out, n_in, 8);
  double scale = 0;

  for (int form = RG_SIGNS_STORED; form < RG_SIGNS_COUNT; form++) {
    sketch layer = { .terms = terms, .rank = rank, .form = form, .act = RG_ACT_GELU };
    sketch bf16;
    rg_tensor *y[3] = { NULL, NULL, NULL }, *yp = NULL, *yh = NULL;
    rg_plan *plan = NULL;

    layer.bias = random_vector(n_out, 9);
    is_status(sketch_of(drawn, &layer, 8), RG_OK, "a sketched layer");
    for (int w = 0; w < 3; w++) {
      is_status(rg_set_gemm_path(ways[w]), RG_OK, "a way");
      is_status(forward(&layer, x, &y[w]), RG_OK, "forward");
    }
    is_status(rg_set_gemm_path("auto"), RG_OK, "back");
    is_status(rg_capture_begin(), RG_OK, "capture");
    is_status(forward(&layer, x, &yp), RG_OK, "forward");
    is_status(rg_capture_end(&plan), RG_OK, "a plan");
    is_status(rg_plan_replay(plan, 3), RG_OK, "replay");
    scale = norm(y[2]);
    close_to(distance(y[0], y[2]) / scale, 0, 1e-6, "own kernels agree with OpenBLAS");
    close_to(distance(y[1], y[2]) / scale, 0, 1e-6, "oneDNN agrees with OpenBLAS");
    close_to(distance(yp, y[0]), 0, 0, "a plan does the same");
    bf16 = in_bf16(&layer);
    is_status(forward(&bf16, x, &yh), RG_OK, "forward in f32 with bf16 weights");
    close_to(distance(yh, y[2]) / scale, 0, 0.01, "near");
    /* S1 is written to: the packed form must follow, the plan's as well */
    is_status(rg_mul_scalar_(layer.s1 != NULL ? layer.s1 : layer.part[0], 2.0), RG_OK, "write");
    is_status(rg_plan_replay(plan, 1), RG_OK, "replay");
    is_status(rg_set_gemm_path("openblas"), RG_OK, "a way");
    rg_tensor_release(y[2]);
    y[2] = NULL;
    is_status(forward(&layer, x, &y[2]), RG_OK, "forward");
    is_status(rg_set_gemm_path("auto"), RG_OK, "back");
    ok(distance(y[2], y[0]) > 0.01 * scale, "the write is seen");
    close_to(distance(yp, y[2]) / norm(y[2]), 0, 1e-6, "by the plan, too");
    rg_plan_release(plan);
    rg_tensor_release(yp);
    rg_tensor_release(yh);
    for (int w = 0; w < 3; w++) {
      rg_tensor_release(y[w]);
    }
    sketch_done(&layer);
    sketch_done(&bf16);
  }
  rg_tensor_release(x);
  rg_tensor_release(drawn);
}

/* An infinity or a nan in x is one in its row of y and nowhere else; tiny numbers survive. */
static void test_odd_numbers(void)
{
  sketch layer = { .terms = 2, .rank = 32, .form = RG_SIGNS_STORED };
  rg_tensor *x = random_matrix(40, 64, 6), *y = NULL, *clean = NULL;
  rg_tensor *drawn = random_matrix(48, 64, 8);
  bool spread = false, lost = false;

  is_status(sketch_of(drawn, &layer, 8), RG_OK, "a sketched layer");
  is_status(forward(&layer, x, &clean), RG_OK, "forward");
  is_status(rg_tensor_set(x, (const int64_t[]){ 3, 10 }, 2, INFINITY), RG_OK, "infinity");
  is_status(rg_tensor_set(x, (const int64_t[]){ 7, 63 }, 2, NAN), RG_OK, "nan");
  is_status(forward(&layer, x, &y), RG_OK, "forward");
  for (int64_t i = 0; i < 40; i++) {
    for (int64_t j = 0; j < 48; j++) {
      bool odd = !isfinite(at2(y, i, j));

      lost = lost || ((i == 3 || i == 7) && !odd);
      spread = spread || (i != 3 && i != 7 && at2(y, i, j) != at2(clean, i, j));
    }
  }
  ok(!lost, "infinity and nan reach the result");
  ok(!spread, "of their own rows only");
  rg_tensor_release(y);
  y = NULL;
  rg_tensor *small = NULL;
  is_status(rg_tensor_set(x, (const int64_t[]){ 3, 10 }, 2, 1), RG_OK, "finite again");
  is_status(rg_tensor_set(x, (const int64_t[]){ 7, 63 }, 2, 1), RG_OK, "finite again");
  rg_tensor_release(clean);
  clean = NULL;
  is_status(forward(&layer, x, &clean), RG_OK, "forward");
  is_status(rg_mul_scalar(x, 0x1p-90, 0, &small), RG_OK, "small numbers");
  is_status(forward(&layer, small, &y), RG_OK, "forward");
  is_status(rg_mul_scalar_(y, 0x1p90), RG_OK, "back to size");
  close_to(distance(y, clean) / norm(clean), 0, 1e-6, "are not lost");
  rg_tensor_release(small);
  rg_tensor_release(x);
  rg_tensor_release(y);
  rg_tensor_release(clean);
  rg_tensor_release(drawn);
  sketch_done(&layer);
}

/* S1 = W U1', S2 = U2' W, signs of +-1/sqrt(R). */
static void test_sketch(void)
{
  sketch layer = { .terms = 2, .rank = 4, .form = RG_SIGNS_AUTO };
  rg_tensor *w = random_matrix(9, 12, 5);
  double s1_off = 0, s2_off = 0, sign_off = 0;

  is_status(rg_sketch(w, 2, 4, RG_SIGNS_AUTO, 3, layer.part), RG_OK, "without a form: stored");
  ok(layer.part[1] != NULL && layer.part[2] == NULL, "in two parts");
  sketch_done(&layer);
  layer.form = RG_SIGNS_STORED;
  is_status(sketch_of(w, &layer, 3), RG_OK, "the sketch of a weight");
  const rg_tensor *s1 = layer.s1, *u1 = layer.u1, *u2 = layer.u2, *s2 = layer.s2;
  is_int(s1->_shape[1] == 12 && s1->_shape[2] == 4 && u1->_shape[1] == 4 && u1->_shape[2] == 9, 1,
         "S1s is [T x n_in x R], U1s [T x R x n_out]");
  for (int64_t t = 0; t < 2; t++) {
    for (int64_t r = 0; r < 4; r++) {
      for (int64_t i = 0; i < 12; i++) {
        double sum = 0;
        for (int64_t j = 0; j < 9; j++) {
          sum += at2(w, j, i) * at3(u1, t, r, j);
        }
        s1_off = fmax(s1_off, fabs(sum - at3(s1, t, i, r)));
        sign_off = fmax(sign_off, fabs(fabs(at3(u2, t, i, r)) - 0.5));
      }
      for (int64_t j = 0; j < 9; j++) {
        double sum = 0;
        for (int64_t i = 0; i < 12; i++) {
          sum += at3(u2, t, i, r) * at2(w, j, i);
        }
        s2_off = fmax(s2_off, fabs(sum - at3(s2, t, r, j)));
        sign_off = fmax(sign_off, fabs(fabs(at3(u1, t, r, j)) - 0.5));
      }
    }
  }
  close_to(s1_off, 0, 1e-6, "S1 = W U1'");
  close_to(s2_off, 0, 1e-6, "S2 = U2' W");
  close_to(sign_off, 0, 0, "signs are +-1/sqrt(R)");
  ok(rg_tensor_same_storage(s1, u2) && rg_tensor_same_storage(u1, s2) &&
         !rg_tensor_same_storage(s1, s2),
     "the parameters are views of two matrices");
  rg_tensor_release(w);
  sketch_done(&layer);
}

/* -- Statistics -------------------------------------------------------------------------------- */

/* The error of the sketch follows sqrt(((O-1)/R + (I-1)/R) / (4T)); the mean of many is the
** weight. */
static void test_error(void)
{
  static const int64_t sizes[][4] = { { 64, 64, 1, 16 }, { 64, 32, 2, 8 }, { 48, 96, 4, 32 } };

  for (int s = 0; s < 3; s++) {
    int64_t n_in = sizes[s][0], n_out = sizes[s][1], terms = sizes[s][2], rank = sizes[s][3];
    rg_tensor *w = random_matrix(n_out, n_in, 11), *mean = NULL;
    double sum = 0;
    int draws = 40;
    double want =
        sqrt(((double)(n_out - 1) + (double)(n_in - 1)) / (double)rank / (4.0 * (double)terms));

    for (int d = 0; d < draws; d++) {
      sketch layer = { .terms = terms, .rank = rank, .form = RG_SIGNS_STORED + d % 3 };
      rg_tensor *effective = NULL;

      if (sketch_of(w, &layer, (uint64_t)(100 + d)) != RG_OK ||
          weight_of(&layer, &effective) != RG_OK) {
        ok(false, rg_error_message());
        return;
      }
      sum += distance(effective, w) / norm(w);
      if (mean == NULL) {
        mean = rg_tensor_retain(effective);
      } else {
        ok(rg_add_(mean, effective) == RG_OK, "sum of sketches");
      }
      rg_tensor_release(effective);
      sketch_done(&layer);
    }
    close_to(sum / draws, want, 0.05 * want, "the initial error follows its law");
    is_status(rg_mul_scalar_(mean, 1.0 / draws), RG_OK, "the mean of the sketches");
    /* of independent draws the error falls with the root of their number */
    close_to(distance(mean, w) / norm(w), want / sqrt(draws), 0.1 * want / sqrt(draws),
             "sketches are unbiased");
    rg_tensor_release(mean);
    rg_tensor_release(w);
  }
}

/* -- Seeds ------------------------------------------------------------------------------------- */

static void test_seeds(void)
{
  for (int32_t form = RG_SIGNS_STORED; form < RG_SIGNS_COUNT; form++) {
    rg_tensor *w = random_matrix(10, 20, 21);
    sketch k[3];
    uint64_t offset;

    rg_seed(5);
    offset = rg_generator_offset(rg_generator_default());
    for (int i = 0; i < 3; i++) {
      k[i] = (sketch){ .terms = 2, .rank = 3, .form = form };
      is_status(sketch_of(w, &k[i], i < 2 ? 21 : 22), RG_OK, "a sketch");
    }
    is_int(rg_generator_offset(rg_generator_default()), offset, "the default stream did not move");
    for (int32_t i = 0; i < RG_SKETCH_PARTS && k[0].part[i] != NULL; i++) {
      size_t bytes = (size_t)rg_tensor_bytes(k[0].part[i]);

      ok(memcmp(k[0].part[i]->_data, k[1].part[i]->_data, bytes) == 0, "one seed");
      ok(memcmp(k[0].part[i]->_data, k[2].part[i]->_data, bytes) != 0, "another one");
    }
    for (int i = 0; i < 3; i++) {
      sketch_done(&k[i]);
    }
    rg_tensor_release(w);
  }
}

/* -- Dropout ----------------------------------------------------------------------------------- */

static void test_dropout(void)
{
  sketch layer = { .terms = 2, .rank = 3, .form = RG_SIGNS_STORED };
  rg_tensor *x = random_matrix(200, 20, 9), *y = NULL, *z = NULL, *d = NULL;
  rg_tensor *w = random_matrix(30, 20, 2);
  int64_t dropped = 0;
  double worst = 0, apart = 0;

  layer.bias = random_vector(30, 3);
  is_status(sketch_of(w, &layer, 2), RG_OK, "a layer");
  is_status(forward(&layer, x, &y), RG_OK, "without dropout");
  layer.p = 0.25;
  rg_seed(77);
  is_status(forward(&layer, x, &z), RG_OK, "with dropout");
  rg_seed(77);
  is_status(rg_dropout(y, 0.25, NULL, &d), RG_OK, "the same by the operation");
  for (int64_t i = 0; i < 200; i++) {
    for (int64_t j = 0; j < 30; j++) {
      double got = at2(z, i, j);

      dropped += got == 0;
      worst = fmax(worst, got == 0 ? 0 : fabs(got - at2(y, i, j) / 0.75));
      apart = fmax(apart, fabs(got - at2(d, i, j)));
    }
  }
  close_to((double)dropped / 6000.0, 0.25, 5 * sqrt(0.25 * 0.75 / 6000), "a quarter is dropped");
  close_to(worst, 0, 1e-5, "the others are scaled");
  close_to(apart, 0, 1e-6, "fused dropout draws what the operation draws");
  rg_tensor_release(x);
  rg_tensor_release(y);
  rg_tensor_release(z);
  rg_tensor_release(d);
  rg_tensor_release(w);
  sketch_done(&layer);
}

/* -- Low rank ---------------------------------------------------------------------------------- */

static void test_lowrank(void)
{
  rg_tensor *dense = random_matrix(16, 24, 31), *half = NULL;
  rg_tensor *u = NULL, *s = NULL, *vt = NULL, *a = NULL, *b = NULL, *w = NULL, *wt = NULL;
  double tail = 0, size_a = 0, size_b = 0;

  is_status(rg_svd(dense, &u, &s, &vt), RG_OK, "singular values");
  for (int64_t i = 5; i < 16; i++) {
    tail += at(s, &i) * at(s, &i);
  }
  for (int64_t rank = 5; rank <= 16; rank += 11) {
    is_status(rg_lowrank_factors(dense, rank, &a, &b), RG_OK, "factors");
    is_status(rg_matmul(a, b, &wt), RG_OK, "their product");
    is_status(rg_transpose(wt, 0, 1, &w), RG_OK, "the weight");
    /* Eckart-Young: no matrix of rank 5 is nearer than the root of the rest's squares */
    close_to(distance(w, dense), rank == 5 ? sqrt(tail) : 0, 1e-5, "the nearest of its rank");
    size_a = size_b = 0;
    for (int64_t i = 0; i < 24; i++) {
      size_a += at2(a, i, 0) * at2(a, i, 0);
    }
    for (int64_t j = 0; j < 16; j++) {
      size_b += at2(b, 0, j) * at2(b, 0, j);
    }
    close_to(size_a, size_b, 1e-5, "both factors are of one size");
    rg_tensor_release(a);
    rg_tensor_release(b);
    rg_tensor_release(w);
    rg_tensor_release(wt);
  }
  is_status(rg_cast(dense, RG_BF16, &half), RG_OK, "bf16");
  is_status(rg_lowrank_factors(half, 3, &a, &b), RG_OK, "factors of bf16");
  ok(a->_dtype == RG_BF16 && b->_dtype == RG_BF16 && a->_shape[0] == 24 && b->_shape[1] == 16,
     "are bf16, [n_in x rank] and [rank x n_out]");
  rg_tensor_release(a);
  rg_tensor_release(b);
  a = b = NULL;
  is_status(rg_lowrank_factors(dense, 17, &a, &b), RG_EARG, "a rank above the sizes is refused");
  is_status(rg_lowrank_factors(dense, 0, &a, &b), RG_EARG, "and one of 0");
  is_status(rg_lowrank_factors(s, 1, &a, &b), RG_EARG, "and a vector");
  is_status(rg_lowrank_factors(dense, 1, NULL, &b), RG_EARG, "and no place for the first factor");
  is_status(rg_lowrank_factors(dense, 1, &a, NULL), RG_EARG, "or for the second");
  ok(a == NULL && b == NULL, "nothing was made");
  rg_tensor_release(dense);
  rg_tensor_release(half);
  rg_tensor_release(u);
  rg_tensor_release(s);
  rg_tensor_release(vt);
}

/* -- Bytes, arithmetic ------------------------------------------------------------------------- */

static void test_bytes(void)
{
  rg_tensor *w = random_matrix(30, 40, 1), *x = random_matrix(4, 40, 2), *y = NULL;

  for (int32_t form = RG_SIGNS_STORED; form < RG_SIGNS_COUNT; form++) {
    sketch k = { .terms = 2, .rank = 3, .form = form };
    int64_t signs = form == RG_SIGNS_STORED ? 4 * 420 : form == RG_SIGNS_BITS ? 64 : 8;
    int64_t bytes = 0, packed = 0;

    is_status(sketch_of(w, &k, 1), RG_OK, "a sketch");
    for (int32_t i = 0; i < RG_SKETCH_PARTS; i++) {
      bytes += rg_tensor_bytes(k.part[i]);
      packed += rg_tensor_packed_bytes(k.part[i]);
    }
    is_int(bytes, 4 * 420 + signs, "TR(I+O) values, and the signs: a byte for 8, or 8 bytes");
    is_int(packed, 0, "nothing is packed");
    is_status(forward(&k, x, &y), RG_OK, "forward");
    for (int32_t i = 0; i < RG_SKETCH_PARTS; i++) {
      packed += rg_tensor_packed_bytes(k.part[i]);
    }
    ok(form != RG_SIGNS_STORED || packed >= 840 * 4, "packed copies are counted");
    rg_tensor_release(y);
    sketch_done(&k);
  }
  is_int(rg_tensor_packed_bytes(NULL), 0, "of nothing");
  rg_tensor_release(w);
  rg_tensor_release(x);
}

static void test_arithmetic(void)
{
  int64_t out[3];
  rg_tensor *parts[RG_SKETCH_PARTS] = { NULL }, *w = random_matrix(10, 10, 1);

  close_to(rg_sklinear_break_even(1024, 512), 341.33, 0.01, "break-even of 1024 x 512");
  /* the stack of document 002 becomes 1000 -> 504 -> 256 -> 10 */
  is_status(rg_round_for_tensor_cores(1000, 500, 64, 8, out), RG_OK, "to 8");
  ok(out[0] == 1000 && out[1] == 504 && out[2] == 64, "1000, 500, 64 to 8");
  is_status(rg_round_for_tensor_cores(250, 10, 30, 8, out), RG_OK, "to 8");
  ok(out[0] == 256 && out[1] == 10 && out[2] == 32, "10 would grow to 1.6 times itself");
  is_status(rg_round_for_tensor_cores(250, 10, 30, 0, out), RG_EARG, "to multiples of 0");
  is_status(rg_round_for_tensor_cores(0, 10, 30, 8, out), RG_EARG, "no inputs");
  is_status(rg_sketch(NULL, 1, 1, RG_SIGNS_AUTO, 1, parts), RG_EARG, "no weight");
  is_status(rg_sketch(w, 0, 1, RG_SIGNS_AUTO, 1, parts), RG_EARG, "no terms");
  is_status(rg_sketch(w, 1, 0, RG_SIGNS_AUTO, 1, parts), RG_EARG, "no rank");
  is_status(rg_sketch(w, 1, 1, RG_SIGNS_COUNT, 1, parts), RG_EARG, "no such form");
  is_status(rg_sketch_weight(parts, 1, 1, RG_SIGNS_STORED, &w), RG_EARG, "no parts");
  is_status(rg_sketch_weight(parts, 1, 1, RG_SIGNS_AUTO, &w), RG_EARG, "no form");
  ok(parts[0] == NULL && parts[1] == NULL, "nothing was made");
  rg_tensor_release(w);
}

/* The least sizes there are, in every form; and what a sketch leaves that found no memory. */
static void test_least(void)
{
  for (int32_t form = 0; form < RG_SIGNS_COUNT; form++) {
    rg_tensor *w = random_matrix(1, 1, 1);
    rg_tensor *parts[RG_SKETCH_PARTS] = { NULL };
    rg_status status = RG_ENOMEM;
    int64_t tensors;
    int32_t refused = 0;

    if (form == RG_SIGNS_AUTO) {
      rg_tensor_release(w);
      continue;
    }
    tensors = rg_live_tensors();
    for (int64_t at = 1; status != RG_OK && at < 500; at++) {
      rg_alloc_fail_at(at);
      status = rg_sketch(w, 1, 1, form, 1, parts);
      rg_alloc_fail_at(0);
      refused += status == RG_ENOMEM;
      if (status != RG_OK && rg_live_tensors() != tensors) {
        is_int(rg_live_tensors(), tensors, "nothing is left of it");
        break;
      }
    }
    is_status(status, RG_OK, "one number by one term of rank 1");
    ok(refused > 3, "which takes memory several times");
    for (int32_t i = 0; i < RG_SKETCH_PARTS; i++) {
      rg_tensor_release(parts[i]);
    }
    rg_tensor_release(w);
  }
}

int main(void)
{
  int64_t before = rg_live_tensors();

  test_least();

  test_formula();
  try_ways(40, 75, 45, 3, 17);
  try_ways(64, 64, 96, 2, 32);
  try_ways(9, 130, 33, 1, 64);
  try_ways(133, 96, 64, 4, 16);
  try_ways(1, 40, 40, 2, 32);
  test_odd_numbers();
  test_sketch();
  test_error();
  test_seeds();
  test_dropout();
  test_lowrank();
  test_bytes();
  test_arithmetic();
  is_int(rg_live_tensors(), before, "nothing leaks");
  return done();
}
