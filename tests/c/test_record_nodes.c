/* SPDX-License-Identifier: MIT */
/*
** What a recording notes of each call: its modes, place and cost, the results of a compound, what a
** part that is computed again repeats, memory that nobody wrote; and when it ends.
*/
#include "graph/record.h"
#include "op/dropout.h"
#include "op/view.h"
#include "ridge/compound.h"
#include "ridge/device.h"
#include "ridge/grad.h"
#include "ridge/graph.h"
#include "tap.h"

#define SHAPE(...) ((const int64_t[]){ __VA_ARGS__ })
#define SAYS(text) (strcmp(rg_error_message(), (text)) == 0)

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

static void begin(void)
{
  must(rg_capture_begin());
  must(rg_record_begin(0));
}

static rg_graph *end(void)
{
  rg_graph *g = NULL;

  must(rg_record_end(&g));
  rg_capture_cancel();
  is_status(rg_graph_check(g), RG_OK, "every invariant holds");
  return g;
}

/* -- Calls ------------------------------------------------------------------------------- */

static void test_places(void)
{
  rg_tensor *x = filled(SHAPE(2, 3), 2, 1);
  rg_tensor *y[3] = { NULL };

  begin();
  for (int32_t i = 0; i < 3; i++) {
    rg_place_now.module = i == 1 ? NULL : "encoder.2";
    rg_place_now.line = i == 2 ? NULL : "net.lua:7";
    must(rg_exp(x, &y[i]));
  }
  rg_place_now.module = NULL;
  rg_place_now.line = NULL;
  rg_graph *g = end();

  for (int32_t i = 0; i < 3; i++) {
    const rg_ir_node *node = rg_ir_node_at(g, i);

    ok(strcmp(rg_ir_text_of(g, node->module), i == 1 ? "" : "encoder.2") == 0, "whose call it is");
    ok(strcmp(rg_ir_text_of(g, node->line), i == 2 ? "" : "net.lua:7") == 0, "and where");
    ok(node->bytes == 48 && node->flops > 0, "what it costs");
    ok(node->generator == -1 && node->draw == -1 && node->repeats == -1 && !node->recomputed &&
           !node->derived && !node->unwritten && !node->compound && node->complete,
       "and nothing else");
    rg_tensor_release(y[i]);
  }
  rg_graph_release(g);
  rg_tensor_release(x);
}

/* Each mode is what it was at the call. */
static void test_modes(void)
{
  enum { N = 7 };
  rg_device_modes *now = rg_device_modes_now();
  const rg_device_modes before = *now;
  rg_tensor *x = filled(SHAPE(2, 3), 2, 1);
  rg_tensor *y[N] = { NULL };

  begin();
  for (int32_t i = 0; i < N; i++) {
    *now = (rg_device_modes){ 1, 1, 0, 0 };
    now->vendor = i == 1 ? 0 : 1;
    now->autotune = i == 2 ? 2 : 1;
    now->deterministic = i == 3;
    now->tf32 = i == 4;
    must(rg_set_gemm_path(i == 5 ? "own" : "auto"));
    (void)rg_autocast_set(i == 6 ? RG_BF16 : -1);
    must(rg_exp(x, &y[i]));
  }
  (void)rg_autocast_set(-1);
  must(rg_set_gemm_path("auto"));
  *now = before;
  rg_graph *g = end();
  const rg_graph_modes plain = *rg_ir_modes_of(g, rg_ir_node_at(g, 0)->modes);

  ok(plain.vendor == 1 && plain.autotune == 1 && plain.deterministic == 0 && plain.tf32 == 0 &&
         plain.autocast == -1 && plain.layout == -1 && plain.compute == -1 &&
         plain.weight_cast == -1,
     "a call like most");
  for (int32_t i = 1; i < N; i++) {
    rg_graph_modes want = plain;
    const rg_graph_modes *got = rg_ir_modes_of(g, rg_ir_node_at(g, i)->modes);

    want.vendor = i == 1 ? 0 : 1;
    want.autotune = i == 2 ? 2 : 1;
    want.deterministic = i == 3;
    want.tf32 = i == 4;
    want.gemm = i == 5 ? got->gemm : plain.gemm;
    want.autocast = i == 6 ? RG_BF16 : -1;
    want.compute = i == 6 ? got->compute : -1;
    want.weight_cast = i == 6 ? got->weight_cast : -1;
    ok(memcmp(got, &want, sizeof(want)) == 0, "one mode is another one");
    ok((i == 5) == (got->gemm != plain.gemm), "and the path of products only where it was set");
  }
  for (int32_t i = 0; i < N; i++) {
    rg_tensor_release(y[i]);
  }
  rg_graph_release(g);
  rg_tensor_release(x);
}

/* What calls compute in, and read a weight in. */
static void test_types(void)
{
  rg_tensor *x = filled(SHAPE(3, 3), 2, 1);
  rg_tensor *w = filled(SHAPE(3, 3), 2, 1);
  rg_tensor *y[2] = { NULL };

  rg_tensor_set_param(w, 1);
  begin();
  (void)rg_autocast_set(RG_BF16);
  must(rg_linear(x, w, NULL, RG_ACT_NONE, &y[0]));
  must(rg_add(x, x, &y[1]));
  (void)rg_autocast_set(-1);
  rg_graph *g = end();

  is_int(rg_ir_n_nodes(g), 2, "two nodes");
  for (int32_t i = 0; i < 2; i++) {
    const rg_ir_node *node = rg_ir_node_at(g, i);
    const rg_graph_modes *modes = rg_ir_modes_of(g, node->modes);

    is_int(modes->autocast, RG_BF16, "under autocast");
    is_int(modes->compute, i == 0 ? -1 : RG_F32, "the type that inputs are converted to");
    is_int(modes->weight_cast, i == 0 ? RG_BF16 : -1, "and that of a weight");
    rg_tensor_release(y[i]);
  }
  is_int(rg_ir_node_at(g, 0)->n_in, 3, "a layer reads three");
  is_int(rg_ir_inputs(g, rg_ir_node_at(g, 0))[2], -1, "of which one is left out");
  rg_graph_release(g);
  rg_tensor_release(w);
  rg_tensor_release(x);
}

/* A compound hands out all it makes, in its order. */
static void test_compound(void)
{
  rg_tensor *sequence = filled(SHAPE(1, 2, 3), 3, 1);
  rg_tensor *wx = filled(SHAPE(8, 3), 2, 1);
  rg_tensor *w = filled(SHAPE(8, 2), 2, 1);
  rg_tensor *out[3] = { NULL };
  int32_t value[3];

  begin();
  must(rg_recurrent(sequence, NULL, NULL, wx, NULL, w, NULL, RG_CELL_LSTM, 0, out, out + 1,
                    out + 2));
  for (int32_t i = 0; i < 3; i++) {
    must(rg_record_output(out[i], RG_OUTPUT_RETURNED, NULL));
  }
  rg_graph *g = end();
  const rg_ir_node *lstm = rg_ir_node_at(g, 0);

  ok(lstm->compound && lstm->complete, "a compound");
  is_int(lstm->n_results, 3, "has three results");
  is_int(lstm->n_out, 3, "and nothing behind them");
  for (int32_t i = 0; i < 3; i++) {
    value[i] = rg_ir_outputs(g, lstm)[i];
    is_int(value[i], rg_ir_output_at(g, i)->value, "each is what is handed out");
    ok(rg_tensor_shaped(out[i], rg_ir_value_at(g, value[i])->meta.shape,
                        rg_ir_value_at(g, value[i])->meta.ndim),
       "of its shape");
    ok(rg_ir_value_at(g, value[i])->producer > 0, "and made in the body");
    rg_tensor_release(out[i]);
  }
  rg_graph_release(g);
  rg_tensor_release(sequence);
  rg_tensor_release(wx);
  rg_tensor_release(w);
}

/* However many there were before, a compound that finds no memory for its end has no graph. */
static void test_compound_memory(void)
{
  rg_tensor *x = filled(SHAPE(2, 3), 2, 1);
  int32_t n_refused = 0;
  bool clean = true;

  if (tap_refusing()) {
    rg_tensor_release(x);
    return;
  }
  for (int32_t before = 0; before < 20; before++) {
    rg_status status = RG_ENOMEM;

    for (int64_t n = 1; status != RG_OK && n < 200; n++) {
      rg_tensor *t[21] = { NULL };
      rg_tensor *y = NULL;
      rg_tensor *z[21] = { NULL };
      rg_graph *g = NULL;

      begin();
      for (int32_t i = 0; i <= before; i++) {
        must(rg_transpose(x, 0, 1, &t[i]));
        must(i < before ? rg_neg(t[i], &z[i]) : RG_OK);
      }
      rg_alloc_fail_at(n);
      rg_status called = rg_reshape(t[before], SHAPE(6), 1, &y);
      const bool refused = !rg_alloc_injected();

      rg_alloc_fail_at(0);
      if (called == RG_OK) {
        status = rg_record_output(y, RG_OUTPUT_RETURNED, "y");
        status = status == RG_OK ? rg_record_end(&g) : status;
        clean = clean && (status == RG_OK) == !refused && (g == NULL || rg_graph_check(g) == RG_OK);
      }
      n_refused += refused;
      rg_record_cancel();
      rg_capture_cancel();
      rg_graph_release(g);
      for (int32_t i = 0; i <= before; i++) {
        rg_tensor_release(t[i]);
        rg_tensor_release(z[i]);
      }
      rg_tensor_release(y);
    }
    clean = clean && status == RG_OK;
  }
  ok(clean && n_refused > 100, "what found no memory is in no graph");
  rg_tensor_release(x);
}

/* -- Parts that are computed again --------------------------------------------------------- */

/* However many draws there are: the room for them doubles. */
static void test_many_draws(void)
{
  rg_tensor *x = filled(SHAPE(2), 1, 1);
  int32_t room = 16;
  bool right = true;

  begin();
  for (int32_t i = 1; i <= 40; i++) {
    rg_tensor *y = NULL;

    must(rg_dropout(x, 0.5, NULL, &y));
    rg_tensor_release(y);
    room = i > room ? 2 * room : room;
    right = right && rg_recording_now()->room == room && rg_recording_now()->n_draws == i &&
            rg_recording_now()->draws[0].node == 0 &&
            rg_recording_now()->draws[i - 1].node == i - 1;
  }
  ok(right, "each draw is recorded behind the others");
  rg_record_cancel();
  rg_capture_cancel();
  rg_tensor_release(x);
}

/* A body that failed in the second run repeats none of the first one's draws: those that are made
** instead do. */
static void test_undrawn(void)
{
  enum { DRAWS = 3 };
  rg_generator *stream = rg_generator_default();
  rg_recomputed part = { .on = 1 };
  rg_tensor *x = filled(SHAPE(8), 1, 1);
  rg_tensor *y[1 + 2 * DRAWS + 2] = { NULL };
  rg_tensor *t = NULL;
  int64_t recording;
  int32_t n = 0;
  int32_t node;

  begin();
  must(rg_dropout(x, 0.5, NULL, &y[n++])); /* node 0, of no part */
  part.next = rg_record_draws(&recording);
  const uint64_t before = rg_generator_offset(stream);

  for (int32_t i = 0; i < DRAWS; i++) {
    must(rg_dropout(x, 0.5, NULL, &y[n++]));
  }
  part.end = rg_record_draws(&recording);
  is_int(part.next, 1, "a draw before the part");
  is_int(part.end, 1 + DRAWS, "and those of its first run");
  rg_generator_set(stream, rg_generator_seed(stream), before);
  rg_record_recomputed(&part);
  const rg_dropout_args args = { .p = 0.5 };
  const rg_call call = { .op = rg_ir_node_at(rg_recording_now()->g, 0)->op,
                         .in = (const rg_tensor *const[]){ x },
                         .n_in = 1,
                         .args = &args };

  must(rg_graph_recorder->begin(&call, &node));
  must(rg_dropout(x, 0.5, NULL, &y[n++]));
  must(rg_dropout(x, 0.5, NULL, &y[n++]));
  is_int(rg_record_draws(&recording), 3 + DRAWS, "two are repeated in a body");
  must(rg_graph_recorder->end(&call, node, NULL));
  is_int(rg_record_draws(&recording), 1 + DRAWS, "which failed: they are not");
  rg_generator_set(stream, rg_generator_seed(stream), before);
  const int32_t first = rg_ir_n_nodes(rg_recording_now()->g);

  for (int32_t i = 0; i < DRAWS; i++) {
    must(rg_dropout(x, 0.5, NULL, &y[n++]));
  }
  rg_record_recomputed(&part);
  is_int(part.next, 1 + DRAWS, "the second run has come to its end");
  const rg_recording *r = rg_recording_now();

  is_int(r->status, RG_OK, "and draws as the first one did");
  for (int32_t i = 0; i < DRAWS; i++) {
    is_int(rg_ir_node_at(r->g, first + i)->repeats, 1 + i, "each repeats its own");
  }
  must(rg_graph_recorder->begin(&call, &node));
  must(rg_dropout(x, 0.5, NULL, &t));
  rg_tensor_release(t);
  must(rg_graph_recorder->end(&call, node, NULL));
  is_int(rg_record_draws(&recording), 1 + 2 * DRAWS, "nor is a draw of any other body that failed");
  rg_record_cancel();
  rg_capture_cancel();
  while (n > 0) {
    rg_tensor_release(y[--n]);
  }
  rg_tensor_release(x);
}

/* -- Memory of the recording's own --------------------------------------------------------- */

/* Windows that no call made: where they begin, counted from the view they are taken of. */
static void test_windows(void)
{
  rg_tensor *x = filled(SHAPE(4, 4), 2, 1);
  rg_tensor *y = NULL;
  rg_tensor *rows = NULL;
  rg_tensor *window[2] = { NULL };
  rg_tensor *z[2] = { NULL };

  begin();
  must(rg_exp(x, &y));
  must(rg_tensor_view_of(y->_storage, RG_F32, SHAPE(2, 2), SHAPE(4, 1), 2, 20, &window[0]));
  must(rg_neg(window[0], &z[0]));
  must(rg_narrow(y, 0, 2, 2, 1, &rows));
  must(rg_tensor_view_of(y->_storage, RG_F32, SHAPE(3), SHAPE(5), 1, 4, &window[1]));
  must(rg_neg(window[1], &z[1]));
  rg_graph *g = end();
  static const int64_t offsets[2] = { 5, 1 - 8 };

  for (int32_t i = 0; i < 2; i++) {
    const rg_ir_node *node = rg_ir_node_at(g, i == 0 ? 1 : 4);
    const rg_as_strided_args *args = rg_ir_args(g, node);
    const rg_ir_value *made = rg_ir_value_at(g, rg_ir_outputs(g, node)[0]);

    ok(strcmp(node->op->name, "as_strided") == 0 && node->complete && node->n_results == 1,
       "a window is a view");
    is_int(args->offset, offsets[i], "that begins so many numbers behind the newest one");
    is_int(args->shape.n, window[i]->_ndim, "with its axes");
    ok(memcmp(args->shape.at, window[i]->_shape, (size_t)window[i]->_ndim * 8) == 0 &&
           memcmp(args->stride.at, window[i]->_stride, (size_t)window[i]->_ndim * 8) == 0,
       "and strides");
    is_int(rg_ir_inputs(g, node)[0], rg_ir_outputs(g, rg_ir_node_at(g, i == 0 ? 0 : 3))[0],
           "of that one");
    is_int(made->storage, 1, "in its storage");
    rg_tensor_release(window[i]);
    rg_tensor_release(z[i]);
  }
  rg_graph_release(g);
  rg_tensor_release(x);
  rg_tensor_release(y);
  rg_tensor_release(rows);
}

/* Memory that nobody wrote is a node that runs nothing; results that fill new memory need none. */
static void test_unwritten(void)
{
  rg_tensor *x = NULL;
  rg_tensor *half = NULL;
  rg_tensor *strided = NULL;
  rg_tensor *y = NULL;

  begin();
  must(rg_empty(RG_F32, RG_CPU, SHAPE(4, 4), 2, &x));
  must(rg_fill_(x, 1)); /* node 0 fills all of it */
  must(rg_empty(RG_F32, RG_CPU, SHAPE(4), 1, &y));
  must(rg_tensor_view_of(y->_storage, RG_F32, SHAPE(2), SHAPE(1), 1, 0, &half));
  must(rg_fill_(half, 1)); /* nodes 1, 2: half of it */
  rg_tensor *z = NULL;

  must(rg_empty(RG_F32, RG_CPU, SHAPE(2, 2), 2, &z));
  must(rg_tensor_view_of(z->_storage, RG_F32, SHAPE(2, 2), SHAPE(1, 2), 2, 0, &strided));
  must(rg_fill_(strided, 1)); /* nodes 3, 4: all of it, in another order */
  rg_tensor *u = NULL;

  must(rg_empty(RG_F32, RG_CPU, SHAPE(4), 1, &u));
  must(rg_neg_(u)); /* nodes 5, 6: all of it, which it reads */
  rg_graph *g = end();
  static const bool unwritten[] = { false, true, false, true, false, true, false };

  is_int(rg_ir_n_nodes(g), 7, "nodes");
  for (int32_t i = 0; i < rg_ir_n_nodes(g); i++) {
    const rg_ir_node *node = rg_ir_node_at(g, i);
    const rg_ir_value *made = rg_ir_value_at(g, rg_ir_outputs(g, node)[0]);

    is_int(node->unwritten, unwritten[i], "is it what nobody wrote?");
    is_int(node->n_results, 1, "with one result");
    ok(node->complete, "and no more");
    is_int(made->version, i > 0 && i % 2 == 0 ? 1 : 0, "of the version it makes");
  }
  rg_graph_release(g);
  rg_tensor_release(x);
  rg_tensor_release(y);
  rg_tensor_release(z);
  rg_tensor_release(u);
  rg_tensor_release(half);
  rg_tensor_release(strided);
}

/* An operation that writes to its first input and to its last. */
static rg_status write_infer(rg_call *call)
{
  call->out[0] = rg_meta_of(call->in[1]);
  call->n_out = 1;
  return RG_OK;
}

static rg_status write_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)call;
  (void)out;
  (void)frame;
  return RG_OK;
}

static const rg_op op_write = {
  .name = "write",
  .id = -1,
  RG_INPUTS(RG_IN("a", STATE, ANY), RG_IN("x", INPUT, ANY), RG_OPTIONAL("b", STATE, ANY)),
  .result = { "y" },
  .writes = true,
  .infer = write_infer,
  .kernel = write_kernel,
};

/* Each is a version later, wherever it stands. */
static void test_written(void)
{
  for (int32_t n = 2; n <= 3; n++) {
    rg_tensor *x[3] = { filled(SHAPE(2), 1, 1), filled(SHAPE(2), 1, 1), filled(SHAPE(2), 1, 1) };
    rg_tensor *y = NULL;
    rg_tensor *z[3] = { NULL };
    rg_tensor *before[3] = { NULL };

    begin();
    for (int32_t i = 0; i < 3; i++) { /* each is known */
      must(rg_exp(x[i], &before[i]));
    }
    must(rg_run1(&op_write, (const rg_tensor *const[]){ x[0], x[1], x[2] }, n, NULL, &y));
    for (int32_t i = 0; i < 3; i++) {
      must(rg_exp(x[i], &z[i]));
    }
    rg_graph *g = end();
    const rg_ir_node *node = rg_ir_node_at(g, 3);

    is_int(node->n_in, n, "a call of two or three");
    is_int(node->n_results, 1, "makes one");
    is_int(node->n_out, n, "and a version of what it writes to");
    is_int(rg_ir_n_states(g), n - 1, "which is a state");
    ok(node->flops == 0 && node->bytes == 0, "what it costs nobody says");
    for (int32_t i = 0; i < 3; i++) {
      const rg_ir_value *read = rg_ir_value_at(g, rg_ir_inputs(g, rg_ir_node_at(g, 4 + i))[0]);

      is_int(read->version, i == 0 || (i == 2 && n == 3), "that is read behind it");
      rg_tensor_release(x[i]);
      rg_tensor_release(z[i]);
      rg_tensor_release(before[i]);
    }
    rg_graph_release(g);
    rg_tensor_release(y);
  }
}

/* -- Beginning and end --------------------------------------------------------------------- */

static void test_broken_off(void)
{
  rg_tensor *x = filled(SHAPE(2), 1, 1);
  rg_tensor *other = filled(SHAPE(3), 1, 1);
  rg_tensor *y[4] = { NULL };
  rg_graph *g = NULL;
  int64_t number[2];

  begin();
  ok(rg_graph_recorder->knows(x->_storage) == false, "x is not known");
  must(rg_exp(x, &y[0]));
  ok(rg_graph_recorder->knows(x->_storage), "until it is read");
  ok(!rg_graph_recorder->knows(other->_storage), "another one is not");
  (void)rg_record_draws(&number[0]);
  rg_storage_wrote(x->_storage);
  must(rg_exp(x, &y[1]));
  ok(rg_graph_recorder->knows(other->_storage), "of what is broken off all is");
  must(rg_exp(other, &y[2]));
  rg_storage_wrote(other->_storage);
  must(rg_exp(other, &y[3]));
  is_int(rg_ir_n_nodes(rg_recording_now()->g), 1, "nothing more is recorded");
  static const char why[] = "graph: f32[2] was written to by what is no operation";

  ok(rg_record_output(y[0], RG_OUTPUT_RETURNED, "y") == RG_ECAPTURE && SAYS(why), "an output");
  ok(rg_record_input(x, "x") == RG_ECAPTURE && SAYS(why), "an input");
  ok(rg_record_name(x, "x") == RG_ECAPTURE && SAYS(why), "a name");
  ok(rg_record_end(&g) == RG_ECAPTURE && SAYS(why) && g == NULL,
     "and the end say the first reason");
  rg_capture_cancel();
  ok(rg_record_output(x, RG_OUTPUT_RETURNED, "x") == RG_ECAPTURE &&
         SAYS("graph: nothing is recorded"),
     "then nothing is recorded");
  ok(rg_record_begin(0) == RG_ECAPTURE && SAYS("graph: there is no capture"), "nor outside one");
  begin();
  (void)rg_record_draws(&number[1]);
  is_int(number[1], number[0] + 1, "recordings are numbered");
  ok(rg_record_begin(0) == RG_ECAPTURE && SAYS("graph: another recording is under way"),
     "one at a time");
  ok(rg_record_end(NULL) == RG_ECAPTURE && SAYS("graph: nothing is recorded"), "into something");
  ok(rg_recording_now() != NULL && (rg_ring_on & RG_RING_GRAPH) != 0, "it goes on");
  rg_recording *aside = rg_record_swap(NULL);

  ok(rg_graph_recorder == NULL && (rg_ring_on & RG_RING_GRAPH) == 0 && rg_recording_now() == NULL,
     "set aside it hears nothing");
  ok(rg_record_swap(aside) == NULL && rg_graph_recorder != NULL, "until it is back");
  const rg_graph_hooks *hooks = rg_graph_recorder;
  const rg_call call = { .op = &op_write };

  rg_record_cancel();
  rg_capture_cancel();
  is_status(hooks->end(&call, 0, NULL), RG_OK, "a body whose recording is gone has an end");
  rg_record_release(NULL);
  for (int32_t i = 0; i < 4; i++) {
    rg_tensor_release(y[i]);
  }
  rg_tensor_release(other);
  rg_tensor_release(x);
}

int main(void)
{
  test_places();
  test_modes();
  test_types();
  test_compound();
  test_compound_memory();
  test_many_draws();
  test_undrawn();
  test_windows();
  test_unwritten();
  test_written();
  test_broken_off();
  return done();
}
