/* SPDX-License-Identifier: MIT */
/*
** Batch norms in evaluation folded into convolutions: one condition after the other, of the
** convolution, the norm and its body.
*/
#include "op/conv.h"
#include "op/list.h"
#include "pass.h"
#include "ridge/compound.h"

extern const rg_op rg_op_batch_norm;

static const char folding[] = "batch_norm_folding";

enum { SIDE = 4 }; /* of all axes but the first, so that a body need not reshape */

/* What one case has another way. */
typedef enum which {
  NOTHING,
  /* it is folded all the same */
  NO_WEIGHT,
  NO_SHIFT,
  NO_BIAS,
  LAST_AXIS,
  FIVE,
  SIXTEEN,
  READ_LATER,
  WRITTEN_LATER,
  N_FOLDED,
  /* the body */
  FOUR = N_FOLDED,
  SEVENTEEN,
  FIRST_OTHER,
  MIDDLE_OTHER,
  LAST_OTHER,
  LAST_TWO,
  MIDDLE_WRITTEN,
  MIDDLE_RETURNED,
  MIDDLE_READ,
  FIRST_READ,
  Y_A_VIEW,
  Y_OF_OTHERS,
  Y_WRITTEN,
  Y_GIVEN,
  Y_SKIPPED,
  /* the norm */
  BATCH,
  OTHER_AXIS,
  NORM_RECOMPUTED,
  NORM_AUTOCAST,
  NORM_AUTOCAST_F32,
  NORM_DETERMINISTIC,
  NORM_TYPE,
  /* the convolution */
  NO_CONV,
  OTHER_CONV,
  ACTIVATION,
  CONV_RECOMPUTED,
  CONV_AUTOCAST_F32,
  CONV_DETERMINISTIC,
  CONV_RETURNED,
  CONV_READ,
  CONV_IN_PLACE,
  CONV_ELSEWHERE,
  /* what is written behind it */
  X_LATER,
  W_LATER,
  B_LATER,
  WEIGHT_LATER,
  SHIFT_LATER,
  MEAN_LATER,
  VAR_LATER,
  N_WHICH
} which;

static const char *const names[N_WHICH] = {
  "as it is",
  "without a weight",
  "without a shift",
  "a convolution without a bias",
  "the last axis, of channels last",
  "a body of five nodes",
  "of sixteen",
  "y is read twice",
  "y is written over",
  "a body of four nodes",
  "of seventeen",
  "another node at its beginning",
  "in its middle",
  "at its end",
  "two results of one node",
  "one written over in it",
  "one that is an output",
  "one that is read outside",
  "the first of them is",
  "y is a view",
  "y is made outside",
  "y is written over x",
  "y is x",
  "y is handed out to nobody",
  "the batch's own mean",
  "another axis",
  "a norm that is recomputed",
  "under autocast",
  "under autocast to f32",
  "in another mode",
  "of another type",
  "x was there before",
  "x is made by something else",
  "an activation",
  "a convolution that is recomputed",
  "a convolution under autocast to f32",
  "in another mode",
  "the convolution is an output",
  "is read by somebody else",
  "was written in place",
  "stands in another body",
  "the image is written to",
  "the convolution's weight is",
  "its bias is",
  "the norm's weight is",
  "its shift is",
  "the mean is",
  "the variance is",
};

static int32_t there(rg_graph *g, int32_t kind, int32_t dtype, int32_t ndim)
{
  rg_meta meta = { .dtype = dtype, .ndim = ndim };
  int32_t storage;
  int32_t value;

  for (int32_t i = 0; i < ndim; i++) {
    meta.shape[i] = SIDE;
  }
  must(rg_ir_storage_new(g, &storage));
  must(rg_ir_value_add(g, kind, &meta, RG_CPU, storage, NULL, &value));
  if (kind == RG_VALUE_INPUT) {
    must(rg_ir_graph_input(g, value));
  } else if (kind == RG_VALUE_STATE) {
    must(rg_ir_graph_state(g, value));
  }
  return value;
}

/* Something that reads x and makes the like. */
static int32_t other(rg_graph *g, int32_t x)
{
  return unary(g, &rg_op_neg, x);
}

static void modes_of(rg_graph *g, int32_t node, int32_t autocast, int32_t deterministic)
{
  rg_graph_modes modes = *rg_ir_modes_of(g, rg_ir_node_at(g, node)->modes);

  modes.autocast = autocast;
  modes.deterministic = deterministic;
  must(rg_ir_modes_add(g, &modes, &rg_ir_node_at(g, node)->modes));
}

/* (x - mean) rsqrt(var + eps), in a body that is open. */
static int32_t body_of(rg_graph *g, which at, const int32_t *in, int32_t *middle)
{
  int32_t n = at == FOUR ? 1 : at == FIVE ? 2 : at == SIXTEEN ? 13 : at == SEVENTEEN ? 14 : 3;
  int32_t scale = in[4];
  int32_t y;

  if (at == FIRST_OTHER) {
    (void)other(g, in[0]);
  }
  *middle = with_tensor(g, RG_OP_SUB, in[0], in[3]);
  if (at == FIRST_READ) {
    returned(g, *middle, "");
  }
  for (int32_t i = 0; i < n; i++) {
    scale = with_number(g, RG_OP_ADD, scale, 1e-5, 0, at == MIDDLE_WRITTEN && i == 1 ? scale : -1);
  }
  if (at == MIDDLE_OTHER) {
    scale = other(g, scale);
  }
  scale = unary(g, rg_ops[RG_OP_RSQRT], scale);
  if (at == Y_WRITTEN) {
    const rg_binary_args none = { 0 };

    return node_of(g, rg_ops[RG_OP_MUL], (const int32_t[]){ *middle, scale }, 2, &none, *middle);
  }
  y = with_tensor(g, RG_OP_MUL, *middle, scale);
  if (at == LAST_OTHER) {
    (void)other(g, y);
  } else if (at == LAST_TWO) {
    must(rg_ir_output_skip(g, producer(g, y)));
  } else if (at == Y_A_VIEW) {
    const rg_transpose_args args = { .a = 0, .b = 0 };
    const rg_ir_value v = *rg_ir_value_at(g, y);
    int32_t node;

    must(rg_ir_node_add(g, &rg_op_transpose, &y, 1, &args, &node));
    must(rg_ir_output_add(g, node, &v.meta, RG_CPU, v.storage, v.version, -1, &y));
    rg_ir_results_end(g, node);
  }
  return y;
}

static void write_to(rg_graph *g, int32_t value)
{
  (void)node_of(g, &rg_op_relu, &value, 1, NULL, value);
}

static void fold_case(which at)
{
  const rg_conv2d_args args = { .o = { .stride = { 1, 1 },
                                       .dilation = { 1, 1 },
                                       .pad_low = { 1, 1 },
                                       .pad_high = { 2, 2 },
                                       .groups = 1,
                                       .act = at == ACTIVATION ? RG_ACT_RELU : RG_ACT_NONE,
                                       .layout = at == LAST_AXIS ? RG_NHWC : RG_NCHW } };
  const rg_batch_norm_options options = { .eps = 1e-5,
                                          .axis = at == LAST_AXIS || at == OTHER_AXIS ? -1 : 1,
                                          .batch = at == BATCH };
  const int32_t kind = RG_VALUE_STATE;
  const int32_t half = at == NORM_TYPE ? RG_F64 : RG_F32;
  rg_graph *g;
  int32_t node = -1;
  int32_t outer;
  int32_t middle;

  must(rg_ir_new(&g));
  int32_t x = there(g, RG_VALUE_STATE, RG_F32, 4);
  int32_t w = there(g, kind, RG_F32, 4);
  int32_t b = at == NO_BIAS ? -1 : there(g, kind, RG_F32, 1);
  int32_t z = x;

  if (at == CONV_ELSEWHERE) {
    must(rg_ir_node_add(g, &rg_op_softmax, &x, 1, &(rg_softmax_args){ .axis = 1 }, &outer));
    must(rg_ir_begin(g, outer));
  }
  if (at == OTHER_CONV) {
    z = other(g, x);
  } else if (at != NO_CONV) {
    z = node_of(g, rg_ops[RG_OP_CONV2D], (const int32_t[]){ x, w, b }, 3, &args,
                at == CONV_IN_PLACE ? x : -1);
    rg_ir_node_at(g, producer(g, z))->recomputed = at == CONV_RECOMPUTED;
    modes_of(g, producer(g, z), at == CONV_AUTOCAST_F32 ? RG_F32 : -1, at == CONV_DETERMINISTIC);
  }
  if (at == CONV_ELSEWHERE) {
    rg_ir_end(g);
    must(rg_ir_output_share(g, outer, z));
    rg_ir_results_end(g, outer);
  }
  const int32_t in[] = { z, at == NO_WEIGHT ? -1 : there(g, kind, half, 1),
                         at == NO_SHIFT ? -1 : there(g, kind, half, 1), there(g, kind, half, 1),
                         there(g, kind, half, 1) };

  const int32_t apart = other(g, w);

  must(rg_ir_node_add(g, &rg_op_batch_norm, in, 5, &options, &node));
  must(rg_ir_begin(g, node));
  int32_t y = body_of(g, at, in, &middle);

  rg_ir_end(g);
  y = at == Y_GIVEN ? z : at == Y_OF_OTHERS ? apart : y;
  if (at == Y_SKIPPED) {
    must(rg_ir_output_skip(g, node));
  } else {
    must(rg_ir_output_share(g, node, y));
  }
  rg_ir_results_end(g, node);
  rg_ir_node_at(g, node)->recomputed = at == NORM_RECOMPUTED;
  modes_of(g, node,
           at == NORM_AUTOCAST       ? RG_BF16
           : at == NORM_AUTOCAST_F32 ? RG_F32
                                     : -1,
           at == NORM_DETERMINISTIC);
  if (at == MIDDLE_RETURNED) {
    returned(g, middle, "");
  } else if (at == MIDDLE_READ) {
    returned(g, other(g, middle), "");
  } else if (at == CONV_RETURNED) {
    returned(g, z, "");
  } else if (at == CONV_READ) {
    returned(g, other(g, z), "");
  } else if (at == READ_LATER) {
    returned(g, other(g, y), "");
  } else if (at == WRITTEN_LATER) {
    y = node_of(g, &rg_op_relu, &y, 1, NULL, y);
  }
  returned(g, y, "");
  const int32_t written[] = { x, w, b, in[1], in[2], in[3], in[4] };

  if (at >= X_LATER) {
    write_to(g, written[at - X_LATER]);
  }
  must(rg_graph_check(g));
  rg_graph *out = after(g, folding);
  const int32_t *order;
  int32_t n;
  bool folded = true;

  must(rg_ir_order(out, &order, NULL, &n));
  for (int32_t i = 0; i < n; i++) {
    folded = folded && rg_ir_node_at(out, order[i])->op != &rg_op_batch_norm;
  }
  is_int(folded, at < N_FOLDED, names[at]);
  rg_graph_release(out);
}

int main(void)
{
  setenv("RIDGE_CHECK", "1", 1);
  for (which at = NOTHING; at < N_WHICH; at++) {
    fold_case(at);
  }
  return done();
}
