/* SPDX-License-Identifier: MIT */
/*
** What a recording hands out: where each output lies and who has it, gradients, what is held
** outside; and which names count.
*/
#include "graph/record.h"

#include "ridge/grad.h"
#include "ridge/graph.h"
#include "tap.h"

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })

static void must(rg_status status)
{
  if (status != RG_OK) {
    tap_bail(rg_error_message());
  }
}

static rg_tensor *filled(const int64_t *shape, int32_t ndim, double value)
{
  rg_tensor *x = NULL;

  must(rg_empty(RG_F32, RG_CPU, shape, ndim, &x));
  must(rg_fill_(x, value));
  return x;
}

static void begin(int32_t in_place)
{
  must(rg_capture_begin());
  must(rg_record_begin(in_place));
}

static rg_graph *end(void)
{
  rg_graph *g = NULL;

  must(rg_record_end(&g));
  rg_capture_cancel();
  is_status(rg_graph_check(g), RG_OK, "every invariant holds");
  return g;
}

static void output(const rg_tensor *x, int32_t kind, const char *name)
{
  is_status(rg_record_output(x, kind, name), RG_OK, "an output");
}

/* -- Outputs ------------------------------------------------------------------------------- */

static void test_outputs(void)
{
  for (int32_t in_place = 0; in_place < 2; in_place++) {
    rg_tensor *x = filled(SHAPE(2, 3), 2, 1);
    rg_tensor *y = NULL;
    rg_tensor *t = NULL;
    rg_tensor *z = NULL;

    begin(in_place);
    rg_place_now.line = "net.lua:1";
    must(rg_exp(x, &y));
    rg_place_now.line = "net.lua:2";
    must(rg_transpose(y, 0, 1, &t));
    rg_place_now.line = "net.lua:3";
    must(rg_sqrt(x, &z));
    rg_place_now.line = NULL;
    const rg_tensor *const list[] = { y, t, z, x, y, z, x };
    static const int32_t kinds[] = { RG_OUTPUT_RETURNED, RG_OUTPUT_RETURNED, RG_OUTPUT_GRADIENT,
                                     RG_OUTPUT_RETURNED, RG_OUTPUT_KEPT,     RG_OUTPUT_KEPT,
                                     RG_OUTPUT_KEPT };
    static const int32_t shares[] = { 1, 1, 3, 4, 1, 3, 4 };
    static const char *const names[] = { "y", "t", NULL, "x", "y again", "", "x again" };
    static const char *const lines[] = { "", "", "", "", "net.lua:1", "net.lua:3", "" };

    for (int32_t i = 0; i < 7; i++) {
      output(list[i], kinds[i], names[i]);
    }
    rg_graph *g = end();

    is_int(rg_ir_n_outputs(g), 7, "outputs, each of them as often as it was said");
    for (int32_t i = 0; i < 7; i++) {
      const rg_ir_output *out = rg_ir_output_at(g, i);

      is_int(out->kind, kinds[i], "why it is one");
      is_int(out->shares, shares[i], "the first in its storage");
      is_int(out->outside, list[i] == x, "whether that was there before");
      ok(out->into == (kinds[i] == RG_OUTPUT_RETURNED && !in_place ? NULL : list[i]),
         "the tensor that a plan writes");
      ok(strcmp(rg_ir_text_of(g, out->name), names[i] != NULL ? names[i] : "") == 0, "its name");
      ok(strcmp(rg_ir_text_of(g, out->line), lines[i]) == 0,
         "and who made it, where nobody asked for it");
    }
    rg_graph_release(g);
    rg_tensor_release(x);
    rg_tensor_release(y);
    rg_tensor_release(t);
    rg_tensor_release(z);
  }
}

/* A gradient that the recording did not make is none of its outputs. */
static void test_gradients(void)
{
  rg_tensor *unseen = filled(SHAPE(2), 1, 1);
  rg_tensor *read = filled(SHAPE(2), 1, 1);
  rg_tensor *written = filled(SHAPE(2), 1, 1);
  rg_tensor *fresh = NULL;
  rg_tensor *made = NULL;

  begin(0);
  must(rg_empty(RG_F32, RG_CPU, SHAPE(2), 1, &fresh));
  must(rg_exp(read, &made));
  must(rg_mul_scalar_(written, 2));
  output(unseen, RG_OUTPUT_GRADIENT, "unseen");
  output(read, RG_OUTPUT_GRADIENT, "read");
  output(written, RG_OUTPUT_GRADIENT, "written");
  output(fresh, RG_OUTPUT_GRADIENT, "fresh");
  output(made, RG_OUTPUT_GRADIENT, "made");
  output(read, RG_OUTPUT_RETURNED, "returned");
  rg_graph *g = end();
  static const char *const names[] = { "written", "fresh", "made", "returned" };

  is_int(rg_ir_n_outputs(g), 4, "what was there, and is as it was, is no gradient");
  for (int32_t i = 0; i < 4; i++) {
    ok(strcmp(rg_ir_text_of(g, rg_ir_output_at(g, i)->name), names[i]) == 0, names[i]);
  }
  rg_graph_release(g);
  rg_tensor_release(unseen);
  rg_tensor_release(read);
  rg_tensor_release(written);
  rg_tensor_release(fresh);
  rg_tensor_release(made);
}

/* What is held outside is an output, as much of it as any view shows, in the order it was made. */
static void test_kept(void)
{
  rg_tensor *x = filled(SHAPE(2, 3), 2, 1);
  rg_tensor *none = filled(SHAPE(0, 3), 2, 1);
  rg_tensor *y = NULL;
  rg_tensor *t = NULL;
  rg_tensor *part = NULL;
  rg_tensor *returned = NULL;
  rg_tensor *gone = NULL;
  rg_tensor *empty = NULL;
  rg_tensor *all = NULL;
  rg_tensor *half = NULL;
  rg_tensor *sum = NULL;

  is_int(rg_record_held(), 0, "nothing is held where nothing is recorded");
  is_status(rg_record_kept(), RG_ECAPTURE, "nor becomes an output");
  begin(1);
  must(rg_exp(x, &y));
  must(rg_transpose(y, 0, 1, &t)); /* as much of it, but later */
  must(rg_narrow(y, 0, 0, 1, 1, &part));
  must(rg_sqrt(x, &returned));
  output(returned, RG_OUTPUT_RETURNED, "sqrt");
  must(rg_neg(x, &gone));
  rg_tensor_release(gone);
  must(rg_exp(none, &empty));
  must(rg_empty(RG_F32, RG_CPU, SHAPE(4), 1, &all));
  must(rg_tensor_view_of(all->_storage, RG_F32, SHAPE(2), SHAPE(1), 1, 8, &half));
  must(rg_fill_(half, 1));
  must(rg_exp(all, &sum)); /* more of it, and later */
  rg_tensor_release(y);    /* its storage is held by views of it */
  is_int(rg_record_held(), 3, "what is held and no output yet");
  is_status(rg_record_kept(), RG_OK, "becomes one");
  is_int(rg_record_held(), 0, "and then is");
  is_status(rg_record_kept(), RG_OK, "so that there are no more");
  rg_graph *g = end();
  static const int64_t sizes[3][2] = { { 2, 3 }, { 4, 0 }, { 4, 0 } };

  is_int(rg_ir_n_outputs(g), 4, "one that was returned, and three");
  for (int32_t i = 0; i < 3 && rg_ir_n_outputs(g) == 4; i++) {
    const rg_ir_output *out = rg_ir_output_at(g, i + 1);
    const rg_tensor *into = out->into;

    is_int(out->kind, RG_OUTPUT_KEPT, "kept");
    ok(into->_shape[0] == sizes[i][0] && (i > 0 || into->_shape[1] == sizes[i][1]),
       "the oldest of those that show most of it");
    ok(into->_storage == (i == 0   ? t
                          : i == 1 ? all
                                   : sum)
                             ->_storage &&
           into->_data == (i == 0   ? t
                           : i == 1 ? all
                                    : sum)
                              ->_data,
       "where it lies");
  }
  rg_graph_release(g);
  rg_tensor_release(x);
  rg_tensor_release(none);
  rg_tensor_release(t);
  rg_tensor_release(part);
  rg_tensor_release(returned);
  rg_tensor_release(empty);
  rg_tensor_release(all);
  rg_tensor_release(half);
  rg_tensor_release(sum);
}

/* -- Names --------------------------------------------------------------------------------- */

static void is_called(const rg_graph *g, int32_t value, int32_t kind, const char *name)
{
  const rg_ir_value *v = rg_ir_value_at(g, value);

  ok(v->kind == kind && strcmp(rg_ir_text_of(g, v->name), name) == 0, name);
}

static void test_names(void)
{
  rg_tensor *x[6];
  rg_tensor *y = NULL;
  rg_tensor *sum[3] = { NULL };

  for (int32_t i = 0; i < 6; i++) {
    x[i] = filled(SHAPE(2), 1, 1);
  }
  rg_tensor_set_param(x[4], 1);
  begin(0);
  must(rg_add(x[0], x[1], &sum[0]));   /* values 0, 1, 2 */
  must(rg_add(sum[0], x[2], &sum[1])); /* 3, 4 */
  must(rg_add(sum[1], x[4], &sum[2])); /* 5, 6 */
  must(rg_record_input(x[2], "given"));
  must(rg_record_input(x[2], "given again"));
  must(rg_record_input(x[3], "unread")); /* 7 */
  must(rg_record_input(x[4], "weight"));
  must(rg_record_input(sum[0], "sum"));
  must(rg_record_name(x[0], "mean"));
  must(rg_record_name(x[3], "unread by name"));
  must(rg_record_name(x[5], "nobody's"));
  must(rg_record_name(sum[1], "the recording's own"));
  rg_graph *g = end();

  is_int(rg_ir_n_values(g), 8, "a name makes no value");
  is_called(g, 3, RG_VALUE_INPUT, "given");
  is_called(g, 7, RG_VALUE_INPUT, "unread by name");
  is_called(g, 5, RG_VALUE_PARAMETER, "weight");
  is_called(g, 2, RG_VALUE_INTERMEDIATE, "sum");
  is_called(g, 0, RG_VALUE_PARAMETER, "mean");
  is_called(g, 4, RG_VALUE_INTERMEDIATE, "");
  is_called(g, 1, RG_VALUE_INPUT, "");
  is_int(rg_ir_n_inputs(g), 3, "inputs");
  is_int(rg_ir_input_at(g, 0), 3, "in the order in which they were given");
  is_int(rg_ir_input_at(g, 1), 7, "read or not");
  is_int(rg_ir_input_at(g, 2), 1, "and then what nobody gave");
  rg_graph_release(g);
  for (int32_t i = 0; i < 6; i++) {
    rg_tensor_release(x[i]);
    rg_tensor_release(i < 3 ? sum[i] : NULL);
  }
  rg_tensor_release(y);
}

/* -- What was written, and gradients that are put back --------------------------------------- */

static void test_wrote(void)
{
  rg_tensor *x = filled(SHAPE(2), 1, 1);
  rg_tensor *y = NULL;

  is_int(rg_record_wrote(), 0, "nothing is written where nothing is recorded");
  begin(0);
  must(rg_exp(x, &y));
  must(rg_fill_(y, 2));
  is_int(rg_record_wrote(), 0, "what it made itself does not count");
  must(rg_fill_(x, 2));
  is_int(rg_record_wrote(), 1, "what was there before does");
  must(rg_fill_(x, 3));
  is_int(rg_record_wrote(), 2, "each time");
  output(y, RG_OUTPUT_RETURNED, "y");
  rg_graph_release(end());
  is_int(rg_record_wrote(), 0, "and the end is the end");
  rg_tensor_release(x);
  rg_tensor_release(y);
}

static void backward_of(const rg_tensor *x)
{
  rg_tensor *y = NULL;
  rg_tensor *sum = NULL;

  must(rg_exp(x, &y));
  must(rg_sum(y, NULL, 0, 0, &sum));
  must(rg_backward(sum, NULL, 0));
  rg_tensor_release(y);
  rg_tensor_release(sum);
}

static void test_exchange(void)
{
  rg_tensor *x = filled(SHAPE(2), 1, 1);
  rg_tensor *other = filled(SHAPE(3), 1, 1);
  rg_tensor *first = NULL;
  rg_tensor *second = NULL;
  rg_tensor *none = NULL;

  is_status(rg_grad_exchange(x, other, &none), RG_EARG, "no leaf has no gradient");
  must(rg_require_grad(x, 1));
  is_status(rg_grad_exchange(x, NULL, &none), RG_OK, "there is none yet");
  ok(none == NULL, "and none comes");
  backward_of(x);
  is_status(rg_grad_exchange(x, NULL, &first), RG_OK, "the first one goes");
  backward_of(x);
  is_status(rg_grad_exchange(x, other, &second), RG_EARG, "one of another size is refused");
  is_status(rg_grad_exchange(x, first, &second), RG_OK, "and comes back");
  ok(first != NULL && second != NULL && first != second, "in the place of another one");
  is_status(rg_grad_exchange(x, NULL, &none), RG_OK, "what is there");
  ok(none == first, "is the first one");
  is_status(rg_grad_exchange(x, first, NULL), RG_EARG, "nowhere to put it");
  rg_tensor_release(none);
  rg_tensor_release(first);
  rg_tensor_release(second);
  rg_tensor_release(other);
  rg_tensor_release(x);
}

int main(void)
{
  test_wrote();
  test_exchange();
  test_outputs();
  test_gradients();
  test_kept();
  test_names();
  return done();
}
