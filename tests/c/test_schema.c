/* SPDX-License-Identifier: MIT */
/*
** Schemas: which input is what, which calls the dispatcher refuses for them, what it converts.
*/
#include <string.h>

#include "op/list.h"
#include "op/op.h"
#include "op/step.h"
#include "op/view.h"
#include "tap.h"

extern const rg_op rg_op_relu, rg_op_add, rg_op_linear, rg_op_concat, rg_op_softmax, rg_op_take,
    rg_op_adam_step, rg_op_matmul;

#define SHAPE(...) ((int64_t[]){ __VA_ARGS__ })
#define IN(...)    ((const rg_tensor *const[]){ __VA_ARGS__ })

static rg_tensor *filled(int32_t dtype, int64_t rows, int64_t cols, double value)
{
  rg_tensor *x = NULL;

  is_status(rg_empty(dtype, RG_CPU, SHAPE(rows, cols), 2, &x), RG_OK, "a tensor");
  is_status(rg_fill_(x, value), RG_OK, "filled");
  return x;
}

static void test_lists(void)
{
  const rg_step_args args = { .n = 3, .states = 2 };
  rg_call call = { .op = &rg_op_adam_step, .args = &args, .n_in = 3 + 4 * 3 };
  static const char *const names[] = { "rate",   "count", "scale", "params", "params",
                                       "params", "grads", "grads", "grads",  "m",
                                       "m",      "m",     "v",     "v",      "v" };

  for (int32_t i = 0; i < call.n_in; i++) {
    ok(strcmp(rg_input_of(&call, i)->name, names[i]) == 0, names[i]);
  }
  ok(!rg_call_writes(&call, 0) && rg_call_writes(&call, 1), "the count is written to");
  ok(rg_call_writes(&call, 5) && !rg_call_writes(&call, 6), "parameters are, and no gradient");
  ok(rg_call_writes(&call, 9) && rg_call_writes(&call, 14), "both moments are");
  call = (rg_call){ .op = &rg_op_concat, .n_in = 40 };
  ok(strcmp(rg_input_of(&call, 39)->name, "xs") == 0, "the last of many");
}

static void test_refused(void)
{
  rg_tensor *x = filled(RG_F32, 2, 3, 1);
  rg_tensor *i = filled(RG_I32, 2, 3, 1);
  rg_tensor *b = filled(RG_F8E4M3, 2, 3, 1);
  rg_tensor *y = NULL;

  is_status(rg_run1(&rg_op_relu, IN(x, x), 2, NULL, &y), RG_EARG, "one tensor too many");
  ok(strstr(rg_error_message(), "2 tensors given, at most 1") != NULL, "which is said");
  is_status(rg_run1(&rg_op_relu, IN(NULL), 1, NULL, &y), RG_EARG, "none");
  is_status(rg_run1(&rg_op_relu, NULL, 0, NULL, &y), RG_EARG, "no list at all");
  ok(strstr(rg_error_message(), "x is missing") != NULL, "what is missing is named");
  is_status(rg_linear(x, NULL, NULL, RG_ACT_NONE, &y), RG_EARG, "a weight has to be there");
  is_status(rg_softmax(i, -1, &y), RG_EDTYPE, "softmax of integers");
  ok(strstr(rg_error_message(), "x is i32[2,3], wanted a float type") != NULL, "x is named");
  is_status(rg_linear(x, x, i, RG_ACT_NONE, &y), RG_EDTYPE, "a bias of integers");
  ok(strstr(rg_error_message(), "b is i32") != NULL, "b is named");
  is_status(rg_take(x, x, &y), RG_EDTYPE, "an index of floats");
  ok(strstr(rg_error_message(), "index is f32[2,3], wanted whole numbers") != NULL, "named too");
  is_status(rg_relu(b, &y), RG_EDTYPE, "what is only stored");
  is_status(rg_softmax(b, -1, &y), RG_EDTYPE, "in softmax");
  ok(strstr(rg_error_message(), "a type for storing") != NULL, "with what to do about it");
  is_status(rg_take(x, b, &y), RG_EDTYPE, "as an index");
  ok(y == NULL, "nothing was made");
  is_status(rg_clone(b, &y), RG_OK, "but it is copied");
  rg_tensor_release(y);
  rg_tensor_release(x);
  rg_tensor_release(i);
  rg_tensor_release(b);
}

/* What the kernel of the last call was given. */
typedef struct listener {
  rg_recorder recorder;
  int32_t dtype[4];
} listener;

static rg_status heard(rg_recorder *self, const rg_call *call, rg_tensor *const *out)
{
  listener *l = (listener *)self;

  (void)out;
  for (int32_t i = 0; i < call->n_in && i < 4; i++) {
    l->dtype[i] = call->in[i]->_dtype;
  }
  return RG_OK;
}

static rg_status meet_infer(rg_call *call)
{
  call->compute = rg_autocast_for(call) >= 0 ? rg_autocast_for(call) : RG_F32;
  call->n_out = 1;
  call->out[0] = (rg_meta){ .dtype = call->compute };
  return RG_OK;
}

static rg_status meet_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)call;
  (void)out;
  (void)frame;
  return RG_OK;
}

static const rg_op op_meet = {
  .name = "meet",
  .id = -1,
  .amp = RG_AMP_LOWER,
  RG_INPUTS(RG_IN("x", INPUT, ANY), RG_IN("w", WEIGHT, ANY), RG_IN("n", NATIVE, ANY),
            RG_IN("i", INDEX, WHOLE)),
  .infer = meet_infer,
  .kernel = meet_kernel,
};

static void run_meet(listener *l, rg_tensor *x, rg_tensor *w, rg_tensor *n, rg_tensor *i)
{
  rg_tensor *y = NULL;

  memset(l->dtype, 0xff, sizeof(l->dtype));
  is_status(rg_run1(&op_meet, IN(x, w, n, i), 4, NULL, &y), RG_OK, "a call");
  rg_tensor_release(y);
}

static void test_roles(void)
{
  rg_tensor *x = filled(RG_F16, 1, 2, 1);
  rg_tensor *w = filled(RG_F16, 1, 2, 1);
  rg_tensor *n = filled(RG_F16, 1, 2, 1);
  rg_tensor *i = filled(RG_I32, 1, 2, 1);
  listener l = { .recorder = { .ran = heard } };

  rg_recorder_push(&l.recorder);
  run_meet(&l, x, w, n, i);
  is_int(l.dtype[0], RG_F32, "an input is converted");
  is_int(l.dtype[1], RG_F32, "so is a weight that is no parameter");
  is_int(l.dtype[2], RG_F16, "what the kernel reads as it comes is not");
  is_int(l.dtype[3], RG_I32, "nor an index");
  rg_tensor_set_param(w, 1);
  run_meet(&l, x, w, n, i);
  is_int(l.dtype[1], RG_F16, "comes as it is: it is converted once a version");
  rg_autocast_set(RG_BF16);
  run_meet(&l, x, w, n, i);
  is_int(l.dtype[0], RG_BF16, "integers and native inputs do not keep autocast away");
  rg_tensor_release(n);
  n = filled(RG_F64, 1, 2, 1);
  run_meet(&l, x, w, n, i);
  is_int(l.dtype[0], RG_BF16, "not even f64");
  rg_tensor_release(x);
  x = filled(RG_F64, 1, 2, 1);
  run_meet(&l, x, w, n, i);
  is_int(l.dtype[0], RG_F32, "but f64 that is computed with does");
  rg_autocast_set(-1);
  rg_recorder_pop(&l.recorder);
  rg_tensor_release(x);
  rg_tensor_release(w);
  rg_tensor_release(n);
  rg_tensor_release(i);
}

static void test_given_results(void)
{
  rg_tensor *x = filled(RG_F32, 1, 2, 1);
  rg_tensor *narrow = filled(RG_F32, 1, 1, 1);
  rg_tensor *wide = NULL;
  rg_tensor *gone = filled(RG_F32, 1, 2, 1);

  is_status(rg_expand(narrow, SHAPE(1, 2), 2, &wide), RG_OK, "one element, twice");
  is_status(rg_run_into(&rg_op_relu, IN(x), 1, NULL, wide), RG_EARG, "is not written to");
  is_status(rg_run_into(&rg_op_relu, IN(x), 1, NULL, narrow), RG_ESHAPE, "nor another shape");
  rg_tensor_drop(gone);
  is_status(rg_run_into(&rg_op_relu, IN(x), 1, NULL, gone), RG_ERELEASED, "nor what was released");
  is_status(rg_run_into(&rg_op_relu, IN(gone), 1, NULL, x), RG_ERELEASED, "which is not read");
  rg_tensor_release(x);
  rg_tensor_release(narrow);
  rg_tensor_release(wide);
  rg_tensor_release(gone);
}

/* x[0 .. 3] = relu(x[1 .. 4]): read and written in other arrangements. */
static void test_overlap(void)
{
  rg_tensor *x = NULL;
  rg_tensor *from = NULL;
  rg_tensor *to = NULL;
  float got[5];

  is_status(rg_empty(RG_F32, RG_CPU, SHAPE(5), 1, &x), RG_OK, "five numbers");
  is_status(rg_arange_(x, -1, 1), RG_OK, "-1 .. 3");
  is_status(rg_narrow(x, 0, 1, 4, 1, &from), RG_OK, "the last four");
  is_status(rg_narrow(x, 0, 0, 4, 1, &to), RG_OK, "the first four");
  is_status(rg_run_into(&rg_op_relu, IN(from), 1, NULL, to), RG_OK, "one into the other");
  is_status(rg_tensor_read(x, got, sizeof(got)), RG_OK, "read");
  for (int i = 0; i < 4; i++) {
    ok(got[i] == (float)i, "as if the result had been made aside");
  }
  rg_tensor_release(x);
  rg_tensor_release(from);
  rg_tensor_release(to);
}

/* Every operation can be asked for by its number, the first and the last of them, too. */
static void test_numbers(void)
{
  rg_tensor *x = filled(RG_F32, 1, 2, 1);
  rg_tensor *bits = filled(RG_I32, 1, 2, 1);
  rg_tensor *out[RG_MAX_OUT] = { NULL };

  is_status(rg_op_call(-1, IN(x), 1, NULL, NULL, out), RG_EARG, "there is no operation -1");
  is_status(rg_op_call(RG_RECORD_COUNT, IN(x), 1, NULL, NULL, out), RG_EARG,
            "nor one behind the last");
  is_status(rg_op_call(RG_OP_RELU, NULL, 1, NULL, NULL, out), RG_EARG, "one tensor from nowhere");
  is_status(rg_op_call(RG_OP_RELU, IN(x), -1, NULL, NULL, out), RG_EARG, "less than none");
  for (int32_t i = 0; i < RG_RECORD_COUNT; i++) {
    if (rg_ops[i]->args_size > 0) {
      is_status(rg_op_call(i, IN(x), 1, NULL, NULL, out), RG_EARG, "without its arguments");
    } else if (rg_ops[i]->n_inputs == 1 && !rg_ops[i]->writes && rg_ops[i]->expand == NULL) {
      rg_tensor *one = i == RG_OP_BITWISE_NOT ? bits : x;

      is_status(rg_op_call(i, IN(one), 1, NULL, NULL, out), RG_OK, rg_ops[i]->name);
    }
    for (int32_t k = 0; k < RG_MAX_OUT; k++) {
      rg_tensor_release(out[k]);
      out[k] = NULL;
    }
  }
  rg_tensor_release(bits);
  rg_tensor_release(x);
}

/* A view is of the only tensor there is: what lies behind it in the list is not looked at. */
static void test_view(void)
{
  const rg_transpose_args args = { .a = 0, .b = 1 };
  rg_tensor *x = filled(RG_F32, 2, 3, 1);
  rg_tensor *other = filled(RG_F32, 4, 5, 1);
  rg_tensor *out[RG_MAX_OUT] = { NULL };

  is_status(rg_op_call(RG_OP_TRANSPOSE, IN(x, other), 1, &args, NULL, out), RG_OK, "a view");
  ok(out[0]->_storage == x->_storage, "of the first tensor");
  is_int(out[0]->_shape[0], 3, "transposed");
  is_int(out[0]->_shape[1], 2, "in both axes");
  rg_tensor_release(out[0]);
  is_status(rg_op_call(RG_OP_TRANSPOSE, IN(x, other), 2, &args, NULL, out), RG_EARG,
            "not of two tensors");
  rg_tensor_release(other);
  rg_tensor_release(x);
}

int main(void)
{
  test_numbers();
  test_view();
  test_lists();
  test_refused();
  test_roles();
  test_given_results();
  test_overlap();
  return done();
}
