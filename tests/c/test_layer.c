/* SPDX-License-Identifier: MIT */
/*
** Layers against their definitions (definitions.md 1.1): the term-by-term formula, the law of the
** initial error, the three forms of the signs, seeds, counts, the best low-rank copy.
*/
#include <stdlib.h>

#include "ridge.h"
#include "tap.h"

/* -- Small tools ----------------------------------------------------------------------------- */

static double at(const rg_tensor *x, const int64_t *index)
{
  double value = NAN;

  if (rg_tensor_get(x, index, x->_ndim, &value) != RG_OK) {
    printf("# %s\n", rg_error_message());
  }
  return value;
}

static double at2(const rg_tensor *x, int64_t i, int64_t j)
{
  return at(x, (const int64_t[]){ i, j });
}

static double at3(const rg_tensor *x, int64_t t, int64_t i, int64_t j)
{
  return at(x, (const int64_t[]){ t, i, j });
}

static rg_tensor *random_matrix(int64_t rows, int64_t cols, uint64_t seed)
{
  rg_generator *generator = NULL;
  rg_tensor *x = NULL;

  if (rg_empty(RG_F32, RG_CPU, (const int64_t[]){ rows, cols }, 2, &x) != RG_OK ||
      rg_generator_new(seed, &generator) != RG_OK || rg_uniform_(x, -1, 1, generator) != RG_OK) {
    printf("# %s\n", rg_error_message());
    abort();
  }
  rg_generator_release(generator);
  return x;
}

/* The parameter of that name, borrowed. */
static rg_tensor *param(const rg_layer *layer, const char *name)
{
  for (int32_t i = 0; i < rg_layer_params(layer); i++) {
    rg_param p;

    if (rg_layer_param(layer, i, &p) == RG_OK && strcmp(p.name, name) == 0) {
      return p.tensor;
    }
  }
  return NULL;
}

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
static double by_terms(const rg_layer *layer, const rg_tensor *x, int64_t i, int64_t j)
{
  const rg_tensor *s1 = param(layer, "S1s"), *u1 = param(layer, "U1s");
  const rg_tensor *u2 = param(layer, "U2s"), *s2 = param(layer, "S2s");
  const rg_tensor *bias = param(layer, "bias");
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
    rg_sklinear_options o = { .seed = 7, .bias = 1, .act = acts[a], .form = RG_SIGNS_STORED };
    rg_layer *layer = NULL, *bits = NULL;
    rg_tensor *x = random_matrix(9, 37, 1), *y = NULL, *yb = NULL, *w = NULL, *dense = NULL;
    double worst = 0, apart = 0, off = 0;

    is_status(rg_sklinear(37, 22, 3, 5, &o, &layer), RG_OK, "a sketched layer");
    is_status(rg_layer_forward(layer, x, &y), RG_OK, "forward");
    o.form = a == 0 ? RG_SIGNS_BITS : RG_SIGNS_SEED;
    is_status(rg_sklinear(37, 22, 3, 5, &o, &bits), RG_OK, "the same with bits, or a seed");
    is_status(rg_layer_forward(bits, x, &yb), RG_OK, "forward");
    is_status(rg_layer_weight(bits, &w), RG_OK, "its effective weight");
    is_status(rg_linear(x, w, param(bits, "bias"), acts[a], &dense), RG_OK, "as a dense layer");
    for (int64_t i = 0; i < 9; i++) {
      for (int64_t j = 0; j < 22; j++) {
        double want = by_terms(layer, x, i, j);

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
    rg_layer_release(layer);
    rg_layer_release(bits);
  }
}

/* Sizes at which the fixed signs have their own way, in every way, form, plan and odd number. */
static void try_ways(int64_t rows, int64_t n_in, int64_t n_out, int64_t terms, int64_t rank)
{
  static const char *const ways[] = { "auto", "onednn", "openblas" };
  rg_tensor *x = random_matrix(rows, n_in, 6);
  double scale = 0;

  for (int form = RG_SIGNS_STORED; form < RG_SIGNS_COUNT; form++) {
    rg_sklinear_options o = { .seed = 8, .bias = 1, .act = RG_ACT_GELU, .form = form };
    rg_layer *layer = NULL, *bf16 = NULL;
    rg_tensor *y[3] = { NULL, NULL, NULL }, *yp = NULL, *yh = NULL;
    rg_plan *plan = NULL;

    is_status(rg_sklinear(n_in, n_out, terms, rank, &o, &layer), RG_OK, "a sketched layer");
    for (int w = 0; w < 3; w++) {
      is_status(rg_set_gemm_path(ways[w]), RG_OK, "a way");
      is_status(rg_layer_forward(layer, x, &y[w]), RG_OK, "forward");
    }
    is_status(rg_set_gemm_path("auto"), RG_OK, "back");
    is_status(rg_capture_begin(), RG_OK, "capture");
    is_status(rg_layer_forward(layer, x, &yp), RG_OK, "forward");
    is_status(rg_capture_end(&plan), RG_OK, "a plan");
    is_status(rg_plan_replay(plan, 3), RG_OK, "replay");
    scale = norm(y[2]);
    close_to(distance(y[0], y[2]) / scale, 0, 1e-6, "own kernels agree with OpenBLAS");
    close_to(distance(y[1], y[2]) / scale, 0, 1e-6, "oneDNN agrees with OpenBLAS");
    close_to(distance(yp, y[0]), 0, 0, "a plan does the same");
    is_status(rg_layer_to(layer, RG_BF16, &bf16), RG_OK, "bf16");
    is_status(rg_layer_forward(bf16, x, &yh), RG_OK, "forward in f32 with bf16 weights");
    close_to(distance(yh, y[2]) / scale, 0, 0.01, "near");
    /* S1 is written to: the packed form must follow, the plan's as well */
    is_status(rg_mul_scalar_(param(layer, "S1s"), 2.0), RG_OK, "write");
    is_status(rg_plan_replay(plan, 1), RG_OK, "replay");
    is_status(rg_set_gemm_path("openblas"), RG_OK, "a way");
    rg_tensor_release(y[2]);
    y[2] = NULL;
    is_status(rg_layer_forward(layer, x, &y[2]), RG_OK, "forward");
    is_status(rg_set_gemm_path("auto"), RG_OK, "back");
    ok(distance(y[2], y[0]) > 0.01 * scale, "the write is seen");
    close_to(distance(yp, y[2]) / norm(y[2]), 0, 1e-6, "by the plan, too");
    rg_plan_release(plan);
    rg_tensor_release(yp);
    rg_tensor_release(yh);
    for (int w = 0; w < 3; w++) {
      rg_tensor_release(y[w]);
    }
    rg_layer_release(layer);
    rg_layer_release(bf16);
  }
  rg_tensor_release(x);
}

/* An infinity or a nan in x is one in its row of y and nowhere else; tiny numbers survive. */
static void test_odd_numbers(void)
{
  rg_sklinear_options o = { .seed = 8 };
  rg_layer *layer = NULL;
  rg_tensor *x = random_matrix(40, 64, 6), *y = NULL, *clean = NULL;
  bool spread = false, lost = false;

  is_status(rg_sklinear(64, 48, 2, 32, &o, &layer), RG_OK, "a sketched layer");
  is_status(rg_layer_forward(layer, x, &clean), RG_OK, "forward");
  is_status(rg_tensor_set(x, (const int64_t[]){ 3, 10 }, 2, INFINITY), RG_OK, "infinity");
  is_status(rg_tensor_set(x, (const int64_t[]){ 7, 63 }, 2, NAN), RG_OK, "nan");
  is_status(rg_layer_forward(layer, x, &y), RG_OK, "forward");
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
  is_status(rg_layer_forward(layer, x, &clean), RG_OK, "forward");
  is_status(rg_mul_scalar(x, 0x1p-90, 0, &small), RG_OK, "small numbers");
  is_status(rg_layer_forward(layer, small, &y), RG_OK, "forward");
  is_status(rg_mul_scalar_(y, 0x1p90), RG_OK, "back to size");
  close_to(distance(y, clean) / norm(clean), 0, 1e-6, "are not lost");
  rg_tensor_release(small);
  rg_tensor_release(x);
  rg_tensor_release(y);
  rg_tensor_release(clean);
  rg_layer_release(layer);
}

/* S1 = W U1', S2 = U2' W, signs of +-1/sqrt(R). */
static void test_sketch(void)
{
  rg_sklinear_options o = { .seed = 3 };
  rg_layer *dense = NULL, *layer = NULL;
  double s1_off = 0, s2_off = 0, sign_off = 0;

  is_status(rg_linear_layer(12, 9, 1, 5, &dense), RG_OK, "a dense layer");
  is_status(rg_sklinear_from(dense, 2, 4, &o, &layer), RG_OK, "its sketch");
  const rg_tensor *w = param(dense, "weight");
  const rg_tensor *s1 = param(layer, "S1s"), *u1 = param(layer, "U1s");
  const rg_tensor *u2 = param(layer, "U2s"), *s2 = param(layer, "S2s");
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
  close_to(at(param(layer, "bias"), (const int64_t[]){ 4 }),
           at(param(dense, "bias"), (const int64_t[]){ 4 }), 0, "the bias is the dense layer's");
  rg_layer_release(dense);
  rg_layer_release(layer);
}

/* -- Statistics -------------------------------------------------------------------------------- */

/* The error of the sketch follows sqrt(((O-1)/R + (I-1)/R) / (4T)); the mean of many is the
** weight. */
static void test_error(void)
{
  static const int64_t sizes[][4] = { { 64, 64, 1, 16 }, { 64, 32, 2, 8 }, { 48, 96, 4, 32 } };

  for (int s = 0; s < 3; s++) {
    int64_t n_in = sizes[s][0], n_out = sizes[s][1], terms = sizes[s][2], rank = sizes[s][3];
    rg_layer *dense = NULL;
    rg_tensor *mean = NULL;
    double sum = 0;
    int draws = 40;
    double want =
        sqrt(((double)(n_out - 1) + (double)(n_in - 1)) / (double)rank / (4.0 * (double)terms));

    is_status(rg_linear_layer(n_in, n_out, 0, 11, &dense), RG_OK, "a dense layer");
    const rg_tensor *w = param(dense, "weight");
    for (int d = 0; d < draws; d++) {
      rg_sklinear_options o = { .seed = (uint64_t)(100 + d), .form = RG_SIGNS_STORED + d % 3 };
      rg_layer *layer = NULL;
      rg_tensor *effective = NULL;

      if (rg_sklinear_from(dense, terms, rank, &o, &layer) != RG_OK ||
          rg_layer_weight(layer, &effective) != RG_OK) {
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
      rg_layer_release(layer);
    }
    close_to(sum / draws, want, 0.05 * want, "the initial error follows its law");
    is_status(rg_mul_scalar_(mean, 1.0 / draws), RG_OK, "the mean of the sketches");
    /* of independent draws the error falls with the root of their number */
    close_to(distance(mean, w) / norm(w), want / sqrt(draws), 0.1 * want / sqrt(draws),
             "sketches are unbiased");
    rg_tensor_release(mean);
    rg_layer_release(dense);
  }
}

/* -- Seeds ------------------------------------------------------------------------------------- */

static void test_seeds(void)
{
  rg_sklinear_options o = { .seed = 21, .bias = 1 };
  rg_layer *a = NULL, *b = NULL, *c = NULL;
  uint64_t offset;

  rg_seed(5);
  offset = rg_generator_offset(rg_generator_default());
  is_status(rg_sklinear(20, 10, 2, 3, &o, &a), RG_OK, "one");
  is_status(rg_sklinear(20, 10, 2, 3, &o, &b), RG_OK, "the same seed");
  o.seed = 22;
  is_status(rg_sklinear(20, 10, 2, 3, &o, &c), RG_OK, "another seed");
  is_int(rg_generator_offset(rg_generator_default()), offset, "the default stream did not move");
  for (int32_t i = 0; i < rg_layer_params(a); i++) {
    rg_param pa, pb, pc;
    double same = 0, other = 0;
    rg_tensor *da = NULL, *dc = NULL;

    is_status(rg_layer_param(a, i, &pa), RG_OK, "a parameter");
    is_status(rg_layer_param(b, i, &pb), RG_OK, "a parameter");
    is_status(rg_layer_param(c, i, &pc), RG_OK, "a parameter");
    is_status(rg_sub(pa.tensor, pb.tensor, &da), RG_OK, "difference");
    is_status(rg_sub(pa.tensor, pc.tensor, &dc), RG_OK, "difference");
    for (int64_t j = 0; j < da->_count; j++) {
      same += fabs((double)((const float *)da->_data)[j]);
      other += fabs((double)((const float *)dc->_data)[j]);
    }
    ok(same == 0 && other > 0, pa.name);
    rg_tensor_release(da);
    rg_tensor_release(dc);
  }
  is_status(rg_layer_param(a, 5, &(rg_param){ 0 }), RG_EARG, "five parameters only");
  rg_layer_release(a);
  rg_layer_release(b);
  rg_layer_release(c);
}

/* -- Dropout ----------------------------------------------------------------------------------- */

static void test_dropout(void)
{
  rg_sklinear_options o = { .seed = 2, .p = 0.25, .bias = 1 };
  rg_layer *layer = NULL;
  rg_tensor *x = random_matrix(200, 20, 9), *y = NULL, *z = NULL, *d = NULL;
  int64_t dropped = 0;
  double worst = 0, apart = 0;

  is_status(rg_sklinear(20, 30, 2, 3, &o, &layer), RG_OK, "a layer with dropout");
  is_status(rg_layer_forward(layer, x, &y), RG_OK, "not training");
  rg_layer_set_training(layer, 1);
  rg_seed(77);
  is_status(rg_layer_forward(layer, x, &z), RG_OK, "training");
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
  rg_layer_release(layer);
}

/* -- Low rank ---------------------------------------------------------------------------------- */

static void test_lowrank(void)
{
  rg_layer *dense = NULL, *low = NULL, *full = NULL;
  rg_tensor *u = NULL, *s = NULL, *vt = NULL, *w = NULL;
  double tail = 0;

  is_status(rg_linear_layer(24, 16, 1, 31, &dense), RG_OK, "a dense layer");
  is_status(rg_svd(param(dense, "weight"), &u, &s, &vt), RG_OK, "its singular values");
  is_status(rg_lowrank_from(dense, 5, &low), RG_OK, "rank 5");
  is_status(rg_layer_weight(low, &w), RG_OK, "its weight");
  for (int64_t i = 5; i < 16; i++) {
    tail += at(s, &i) * at(s, &i);
  }
  /* Eckart-Young: no matrix of rank 5 is nearer than the root of the rest's squares */
  close_to(distance(w, param(dense, "weight")), sqrt(tail), 1e-5, "the nearest of rank 5");
  rg_tensor_release(w);
  w = NULL;
  is_status(rg_lowrank_from(dense, 16, &full), RG_OK, "full rank");
  is_status(rg_layer_weight(full, &w), RG_OK, "its weight");
  close_to(distance(w, param(dense, "weight")), 0, 1e-5, "is the weight");
  double a = 0, b = 0;
  for (int64_t i = 0; i < 24; i++) {
    a += at2(param(low, "A"), i, 0) * at2(param(low, "A"), i, 0);
  }
  for (int64_t j = 0; j < 16; j++) {
    b += at2(param(low, "B"), 0, j) * at2(param(low, "B"), 0, j);
  }
  close_to(a, b, 1e-5, "both factors are of one size");
  is_status(rg_lowrank_from(dense, 17, &full), RG_EARG, "a rank above the sizes is refused");
  is_status(rg_lowrank_from(low, 2, &full), RG_EARG, "only dense layers have low-rank copies");
  rg_tensor_release(u);
  rg_tensor_release(s);
  rg_tensor_release(vt);
  rg_tensor_release(w);
  rg_layer_release(dense);
  rg_layer_release(low);
  rg_layer_release(full);
}

/* -- Facts, copies, arithmetic ----------------------------------------------------------------- */

static void test_facts(void)
{
  rg_sklinear_options o = { .seed = 1, .bias = 1 };
  rg_layer *layer = NULL, *half = NULL, *copy = NULL, *bits = NULL;
  rg_layer_facts f;
  rg_tensor *x = random_matrix(4, 40, 2), *y = NULL;

  is_status(rg_sklinear(40, 30, 2, 3, &o, &layer), RG_OK, "a layer");
  is_status(rg_layer_facts_of(layer, &f), RG_OK, "facts");
  is_int(f.stored_count, 2 * 2 * 3 * 70 + 30, "2TR(I+O) values and the bias");
  is_int(f.trainable_count, 2 * 3 * 70 + 30, "half of them are trained");
  is_int(f.stored_bytes, 4 * f.stored_count, "of four bytes");
  is_int(f.exceeds_dense, 0, "840 values are fewer than 1200");
  is_int(f.packed_bytes, 0, "nothing is packed");
  close_to(f.flops_per_row, 2.0 * 840, 0, "two operations a value and row");
  is_status(rg_layer_forward(layer, x, &y), RG_OK, "forward");
  is_status(rg_layer_facts_of(layer, &f), RG_OK, "facts");
  ok(f.packed_bytes >= 840 * 4, "packed copies are counted");
  is_status(rg_layer_to(layer, RG_BF16, &half), RG_OK, "bf16");
  is_status(rg_layer_facts_of(half, &f), RG_OK, "facts");
  is_int(f.stored_bytes, 2 * f.stored_count, "of two bytes");
  is_int(f.dtype, RG_BF16, "the type");
  for (o.form = RG_SIGNS_BITS; o.form <= RG_SIGNS_SEED; o.form++) { /* a byte for 8, 8 bytes */
    is_status(rg_sklinear(40, 30, 2, 3, &o, &bits), RG_OK, "with bits, or a seed");
    is_status(rg_layer_facts_of(bits, &f), RG_OK, "facts");
    is_int(f.stored_bytes, 4 * (2 * 3 * 70 + 30) + (o.form == RG_SIGNS_BITS ? 64 : 8), "signs");
    is_int(f.stored_count, 2 * 2 * 3 * 70 + 30, "the values are as many");
    rg_layer_release(bits);
  }
  is_status(rg_layer_clone(layer, &copy), RG_OK, "a copy");
  is_status(rg_tensor_set(param(copy, "S1s"), (const int64_t[]){ 1, 2, 0 }, 3, 9), RG_OK, "write");
  ok(at3(param(layer, "S1s"), 1, 2, 0) != 9, "copies are apart");
  rg_tensor *changed = NULL;
  is_status(rg_layer_forward(copy, x, &changed), RG_OK, "forward");
  ok(distance(y, changed) > 0.1, "a view of the factor is the factor");
  is_status(rg_layer_to(layer, RG_I32, &copy), RG_EDTYPE, "integers are refused");
  rg_tensor_release(changed);
  rg_tensor_release(x);
  rg_tensor_release(y);
  rg_layer_release(layer);
  rg_layer_release(half);
  rg_layer_release(copy);
  o.form = RG_SIGNS_STORED;
  is_status(rg_sklinear(40, 30, 8, 3, &o, &layer), RG_OK, "above the break-even");
  is_status(rg_layer_facts_of(layer, &f), RG_OK, "facts");
  is_int(f.exceeds_dense, 1, "stores more than the dense layer");
  rg_layer_release(layer);
}

static void test_arithmetic(void)
{
  int64_t out[3];
  rg_layer *layer = NULL;

  close_to(rg_sklinear_break_even(1024, 512), 341.33, 0.01, "break-even of 1024 x 512");
  /* the stack of document 002 becomes 1000 -> 504 -> 256 -> 10 */
  is_status(rg_round_for_tensor_cores(1000, 500, 64, 8, out), RG_OK, "to 8");
  ok(out[0] == 1000 && out[1] == 504 && out[2] == 64, "1000, 500, 64 to 8");
  is_status(rg_round_for_tensor_cores(250, 10, 30, 8, out), RG_OK, "to 8");
  ok(out[0] == 256 && out[1] == 10 && out[2] == 32, "10 would grow to 1.6 times itself");
  is_status(rg_round_for_tensor_cores(250, 10, 30, 0, out), RG_EARG, "to multiples of 0");
  is_status(rg_sklinear(0, 10, 1, 1, NULL, &layer), RG_EARG, "no inputs");
  is_status(rg_sklinear(10, 10, 0, 1, NULL, &layer), RG_EARG, "no terms");
  is_status(rg_sklinear(10, 10, 1, 0, NULL, &layer), RG_EARG, "no rank");
  is_status(rg_sklinear(10, 10, 1, 1, &(rg_sklinear_options){ .p = 1 }, &layer), RG_EARG,
            "dropout of everything");
  is_status(rg_linear_layer(4, 0, 1, 1, &layer), RG_EARG, "no outputs");
  is_status(rg_layer_forward(NULL, NULL, NULL), RG_EARG, "no layer");
  ok(layer == NULL, "nothing was made");
}

static void test_given(void)
{
  rg_tensor *w = random_matrix(6, 4, 3), *x = random_matrix(2, 4, 4), *y = NULL;
  rg_layer *layer = NULL;

  is_status(rg_linear_layer_of(w, NULL, &layer), RG_OK, "of a given weight");
  is_status(rg_layer_set_act(layer, RG_ACT_TANH), RG_OK, "with tanh");
  is_status(rg_layer_forward(layer, x, &y), RG_OK, "forward");
  double sum = 0;
  for (int64_t l = 0; l < 4; l++) {
    sum += at2(x, 1, l) * at2(w, 5, l);
  }
  close_to(at2(y, 1, 5), tanh(sum), 1e-6, "tanh(x w')");
  is_status(rg_layer_set_act(layer, -1), RG_EARG, "no such activation");
  is_status(rg_linear_layer_of(NULL, NULL, &layer), RG_EARG, "no weight");
  rg_tensor_release(w);
  rg_tensor_release(x);
  rg_tensor_release(y);
  rg_layer_release(layer);
}

/* A clone's gradients are its own; a replica's are its layer's. */
static void test_copies_in_training(void)
{
  rg_layer *layer = NULL, *copies[2] = { NULL, NULL };
  rg_tensor *x = random_matrix(2, 4, 4);

  is_status(rg_linear_layer(4, 3, 1, 1, &layer), RG_OK, "a layer");
  is_status(rg_require_grad(param(layer, "weight"), 1), RG_OK, "in training");
  is_status(rg_layer_clone(layer, &copies[0]), RG_OK, "a clone");
  is_status(rg_layer_replica(layer, RG_CPU, &copies[1]), RG_OK, "a replica");
  for (int i = 0; i < 2; i++) {
    rg_tensor *y = NULL, *sum = NULL, *grad = NULL;

    ok(rg_require_grad(param(copies[i], "weight"), 1) == RG_OK, "train the copy");
    is_status(rg_layer_forward(copies[i], x, &y), RG_OK, "forward");
    is_status(rg_sum(y, NULL, 0, 0, &sum), RG_OK, "a loss");
    is_status(rg_backward(sum, NULL, 0), RG_OK, "back");
    is_status(rg_grad_of(param(layer, "weight"), &grad), RG_OK, "the layer's gradient");
    ok((grad != NULL) == (i == 1), "arrives from a replica alone");
    rg_tensor_release(y);
    rg_tensor_release(sum);
    rg_tensor_release(grad);
    rg_layer_release(copies[i]);
  }
  is_status(rg_layer_replica(NULL, RG_CPU, &layer), RG_EARG, "no layer");
  rg_layer_release(layer);
  rg_tensor_release(x);
}

int main(void)
{
  int64_t before = rg_live_tensors();

  test_formula();
  test_copies_in_training();
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
  test_facts();
  test_arithmetic();
  test_given();
  is_int(rg_live_tensors(), before, "nothing leaks");
  return done();
}
