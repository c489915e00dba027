/* SPDX-License-Identifier: MIT */
/*
** What a record is asked of values: tensors that stand in for them, inputs that are left out, and
** views, whose rules change arguments of their own.
*/
#include "ir.h"
#include "op/view.h"

extern const rg_op rg_op_narrow;

/* -- What a record is shown -------------------------------------------------------------- */

static rg_tensor shown[4]; /* copies of the inputs; _dtype -1: none was given */
static int32_t n_shown;
static int32_t autocast;
static rg_status answer;

static rg_status look(rg_call *call)
{
  n_shown = call->n_in;
  for (int32_t i = 0; i < call->n_in; i++) {
    shown[i] = call->in[i] != NULL ? *call->in[i] : (rg_tensor){ ._dtype = -1 };
  }
  autocast = rg_autocast();
  call->n_out = 1;
  call->out[0] = (rg_meta){ .dtype = RG_F32 };
  return answer;
}

static const rg_op op_look = {
  .name = "look",
  .id = -1,
  RG_INPUTS(RG_IN("x", INPUT, ANY), RG_OPTIONAL("y", INPUT, ANY), RG_OPTIONAL("z", INPUT, ANY)),
  .result = { "y" },
  .infer = look,
};

static const rg_op op_silent = { .name = "silent", .id = -1, RG_INPUTS(RG_IN("x", INPUT, ANY)) };

static int32_t value(rg_graph *g, int32_t kind, int32_t device, const rg_meta *meta)
{
  int32_t storage;
  int32_t out;

  must(rg_ir_storage_new(g, &storage));
  must(rg_ir_value_add(g, kind, meta, device, storage, NULL, &out));
  return out;
}

/* A tensor of the value's type, shape and device, without gaps and without memory. */
static void test_stand_in(void)
{
  const rg_meta metas[] = { { RG_BF16, 3, { 2, 3, 4 } },
                            { RG_F64, 0, { 0 } },
                            { RG_I32, 3, { 2, 0, 4 } },
                            { RG_F32, RG_MAX_DIMS, { 1, 2, 1, 2, 1, 2, 1, 3 } } };
  static const int64_t strides[][RG_MAX_DIMS] = {
    { 12, 4, 1 }, { 0 }, { 4, 4, 1 }, { 24, 12, 12, 6, 6, 3, 3, 1 }
  };
  static const int64_t counts[] = { 24, 1, 0, 24 };
  rg_graph *g;
  rg_call call;

  must(rg_ir_new(&g));
  for (int32_t i = 0; i < 4; i++) {
    for (int32_t parameter = 0; parameter < 2; parameter++) {
      const int32_t kind = parameter ? RG_VALUE_PARAMETER : RG_VALUE_INPUT;
      const int32_t x = value(g, kind, i % 2, &metas[i]);

      is_status(rg_ir_infer(g, &op_look, &x, 1, NULL, -1, &call), RG_OK, "a record is asked");
      const rg_tensor *t = &shown[0];

      ok(t->_dtype == metas[i].dtype && t->_device == i % 2 && t->_ndim == metas[i].ndim &&
             t->_count == counts[i] && t->_data == NULL,
         "of a type, a device and so many elements");
      ok(memcmp(t->_shape, metas[i].shape, (size_t)t->_ndim * 8) == 0 &&
             memcmp(t->_stride, strides[i], (size_t)t->_ndim * 8) == 0 &&
             (t->_flags & RG_TENSOR_CONTIGUOUS) != 0,
         "without gaps");
      is_int((t->_flags & RG_TENSOR_PARAM) != 0, parameter, "a parameter or not");
      is_int(call.device, i % 2, "where the call is");
    }
  }
  rg_graph_release(g);
}

/* Inputs that are left out: in front of others, behind them, all that a record reads and no list
** says. */
static void test_left_out(void)
{
  const rg_meta meta = { RG_F32, 1, { 2 } };
  rg_graph *g;
  rg_call call;

  must(rg_ir_new(&g));
  const int32_t x = value(g, RG_VALUE_INPUT, 0, &meta);
  const int32_t y = value(g, RG_VALUE_INPUT, 1, &meta);

  for (int32_t n = 1; n <= 3; n++) {
    for (int32_t which = 0; which < 1 << (n - 1); which++) {
      const int32_t in[3] = { x, which & 1 ? y : RG_IR_NONE, which & 2 ? y : RG_IR_NONE };

      must(rg_ir_infer(g, &op_look, in, n, NULL, -1, &call));
      is_int(n_shown, 3, "a record reads all its inputs");
      ok(shown[0]._dtype == RG_F32 && (shown[1]._dtype == RG_F32) == (n > 1 && (which & 1)) &&
             (shown[2]._dtype == RG_F32) == (n > 2 && (which & 2)),
         "those that are there and those that are not");
      is_int(call.device, 0, "the first says where the call is");
      ok(call.in == NULL && call.n_out == 1 && call.compute == -1 && call.weight_cast == -1,
         "what it says is left");
    }
  }
  rg_graph_release(g);
}

static void test_asked(void)
{
  const rg_meta meta = { RG_F32, 1, { 2 } };
  rg_graph *g;
  rg_call call;

  must(rg_ir_new(&g));
  const int32_t x = value(g, RG_VALUE_INPUT, 0, &meta);
  const int32_t before = rg_autocast_set(RG_F16);

  for (int32_t i = 0; i < 2; i++) {
    answer = i == 0 ? RG_OK : RG_ESHAPE;
    is_status(rg_ir_infer(g, &op_look, &x, 1, NULL, RG_BF16, &call), answer,
              "what a record answers");
    is_int(autocast, RG_BF16, "is asked under autocast as is said");
    is_int(rg_autocast(), RG_F16, "which is the thread's again");
  }
  answer = RG_OK;
  is_status(rg_ir_infer(g, &op_silent, &x, 1, NULL, -1, &call), RG_ENOSUP, "one that does not say");
  ok(SAYS("graph: silent does not say what comes out of it"), "is named");
  const int32_t none = RG_IR_NONE;

  is_status(rg_ir_infer(g, &op_look, &none, 1, NULL, -1, &call), RG_EARG,
            "an input that is needed");
  (void)rg_autocast_set(before);
  for (int64_t n = 1; n <= 2; n++) {
    rg_alloc_fail_at(n);
    is_status(rg_ir_infer(g, &op_look, &x, 1, NULL, -1, &call), RG_ENOMEM, "no memory to ask");
    rg_alloc_fail_at(0);
  }
  rg_graph_release(g);
}

/* -- Views ------------------------------------------------------------------------------- */

enum { MOST_ARGS = 512 };

/* The last byte of its arguments goes from 7 to 1: as many axes come out. */
static rg_status resolve(const rg_op *op, const rg_tensor *x, void *args, rg_layout *at)
{
  char *last = (char *)args + op->args_size - 1;

  ok(x->_ndim == 2 && at->ndim == 2 && at->shape == x->_shape && x->_stride[0] == 3,
     "the rule of a view sees a tensor without gaps");
  *last = (char)(*last - 6);
  at->ndim = *last;
  return RG_OK;
}

static rg_status never(const rg_op *op, const rg_tensor *x, void *args, rg_layout *at)
{
  (void)op;
  (void)x;
  (void)args;
  at->ndim = RG_NO_VIEW;
  return RG_OK;
}

/* x has gaps where the rule has to look for them: there are none. */
static rg_status strides(const rg_op *op, const rg_tensor *x, void *args, rg_layout *at)
{
  (void)op;
  (void)args;
  at->ndim = x->_ndim;
  at->shape = x->_shape;
  return x->_stride[0] == 3 && x->_stride[1] == 1 ? RG_OK : rg_fail(RG_ESHAPE, "other strides");
}

static void test_views(void)
{
  static rg_arg args[MOST_ARGS / 8 + 1];
  rg_op op = {
    .name = "window", .id = -1, RG_INPUTS(RG_IN("x", INPUT, ANY)), .arg = args, .view = resolve
  };
  const rg_meta meta = { RG_F16, 2, { 2, 3 } };
  char bytes[MOST_ARGS + 8] = { 0 };
  int32_t node;
  rg_graph *g;
  rg_call call;

  for (int32_t i = 0; i <= MOST_ARGS / 8; i++) {
    args[i] = (rg_arg){ .name = "n", .type = RG_ARG_i64, .offset = 8 * i };
  }
  must(rg_ir_new(&g));
  const int32_t x = value(g, RG_VALUE_INPUT, 0, &meta);

  for (int32_t size = MOST_ARGS; size <= MOST_ARGS + 8; size += 8) {
    op.args_size = (uint32_t)size;
    op.n_args = size / 8;
    memset(bytes, 0, sizeof(bytes));
    bytes[size - 1] = 7;
    must(rg_ir_node_add(g, &op, &x, 1, bytes, &node));
    const rg_status status = rg_ir_infer_view(g, rg_ir_node_at(g, node), &call);

    is_status(status, size == MOST_ARGS ? RG_OK : RG_ENOSUP, "arguments of this size");
    is_int(((const char *)rg_ir_args(g, rg_ir_node_at(g, node)))[size - 1], 7,
           "stay what they are");
    if (size == MOST_ARGS) {
      ok(call.n_out == 1 && call.n_in == 1 && call.out[0].dtype == RG_F16 &&
             call.out[0].ndim == 1 && call.out[0].shape[0] == 2 && call.compute == -1 &&
             call.weight_cast == -1,
         "and say what comes out");
    }
  }
  op.args_size = 0;
  op.n_args = 0;
  op.view = strides;
  must(rg_ir_node_add(g, &op, &x, 1, NULL, &node));
  is_status(rg_ir_infer_view(g, rg_ir_node_at(g, node), &call), RG_OK, "one without arguments");
  ok(call.out[0].ndim == 2 && call.out[0].shape[1] == 3, "of two axes");
  op.view = never;
  is_status(rg_ir_infer_view(g, rg_ir_node_at(g, node), &call), RG_ENOSUP, "where it is no view");
  ok(SAYS("window: it is no view there"), "it says so");
  op.view = NULL;
  is_status(rg_ir_infer_view(g, rg_ir_node_at(g, node), &call), RG_ENOSUP, "nor anywhere");
  ok(SAYS("graph: window does not say what comes out of it"), "where it never is");
  op.view = strides;
  for (int32_t n = 0; n <= 2; n += 2) {
    must(rg_ir_node_add(g, &op, (const int32_t[]){ x, x }, n, NULL, &node));
    is_status(rg_ir_infer_view(g, rg_ir_node_at(g, node), &call), RG_EARG, "of none, or two");
    ok(SAYS("window: it is a view of one tensor"), "it is none");
  }
  const int32_t none = RG_IR_NONE;

  must(rg_ir_node_add(g, &op, &none, 1, NULL, &node));
  is_status(rg_ir_infer_view(g, rg_ir_node_at(g, node), &call), RG_EARG, "nor of what is left out");
  rg_graph_release(g);
}

int main(void)
{
  test_stand_in();
  test_left_out();
  test_asked();
  test_views();
  return done();
}
