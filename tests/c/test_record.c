/* SPDX-License-Identifier: MIT */
/*
** The record carries what operations to come need: hidden results, several results, optional and
** any number of inputs, scratch, state that is written, random draws, writes into a view.  Each
** kind goes through the record, a small tape, the capture and the replay; nothing here is part of
** ridge.
*/
#include "record/training.h"
#include "ridge/graph.h"

#define IN(...) ((const rg_tensor *const[]){ __VA_ARGS__ })

/* -- One operation at a time ----------------------------------------------------- */

static rg_status f_linear(rg_tensor *const *in, rg_tensor **out)
{
  return t_linear(in[0], in[1], in[2], out);
}

static rg_status f_mse(rg_tensor *const *in, rg_tensor **out)
{
  return rg_run1(&t_op_mse, IN(in[0], in[1]), 2, NULL, out);
}

static rg_status f_norm(rg_tensor *const *in, rg_tensor **out)
{
  t_norm_args args = { .eps = 1e-3f, .momentum = 0.1f, .training = true };

  return rg_run1(&t_op_norm, IN(in[0], in[1], in[2], in[3], in[4]), 5, &args, out);
}

static rg_status f_norm_fixed(rg_tensor *const *in, rg_tensor **out)
{
  t_norm_args args = { .eps = 1e-3f };

  return rg_run1(&t_op_norm, IN(in[0], in[1], in[2], in[3], in[4]), 5, &args, out);
}

static rg_status f_pool(rg_tensor *const *in, rg_tensor **out)
{
  return rg_run1(&t_op_pool, IN(in[0]), 1, &(t_pool_args){ .window = 2 }, out);
}

static rg_status f_attention(rg_tensor *const *in, rg_tensor **out)
{
  t_attention_args args = { .scale = 0.6f, .causal = true };

  return rg_run1(&t_op_attention, IN(in[0], in[1], in[2]), 3, &args, out);
}

static rg_status f_attention_same(rg_tensor *const *in, rg_tensor **out)
{
  t_attention_args args = { .scale = 0.6f };

  return rg_run1(&t_op_attention, IN(in[0], in[0], in[0]), 3, &args, out);
}

static rg_status f_lstm(rg_tensor *const *in, rg_tensor **out)
{
  rg_call call = { .op = &t_op_lstm, .in = (const rg_tensor *const *)in, .n_in = T_LSTM_IN };

  return rg_run(&call, out);
}

/* The same stream from its start, so that the function has one value. */
static rg_status f_dropout(rg_tensor *const *in, rg_tensor **out)
{
  rg_generator *generator;
  rg_call call = {
    .op = &t_op_dropout, .in = IN(in[0]), .n_in = 1, .args = &(t_dropout_args){ .p = 0.4f }
  };
  rg_status status;

  RG_TRY(rg_generator_new(5, &generator));
  rg_generator_set(generator, 5, 3); /* begins in the middle of a block */
  call.generator = generator;
  status = rg_run(&call, out);
  rg_generator_release(generator);
  return status;
}

/* Numbers in -1 .. 1 in no order, no two of them close, so that the largest stays the largest. */
static rg_tensor *apart(int64_t count, int64_t n, int64_t t, int64_t c)
{
  rg_tensor *x = G_TENSOR(1, n, t, c);

  for (int64_t i = 0; i < count; i++) {
    ((float *)x->_data)[i] = (float)(i * 7 % count) * 2 / (float)count - 1;
  }
  return x;
}

static void test_gradients(void)
{
  g_case cases[] = {
    { "linear", f_linear, { G_TENSOR(1, 2, 3, 4), G_TENSOR(2, 5, 4), G_TENSOR(3, 5) }, 0, 1, 0 },
    { "mse", f_mse, { G_TENSOR(4, 3, 4), G_TENSOR(5, 3, 4) }, 1, 1, 0 },
    { "batch norm",
      f_norm,
      { G_TENSOR(6, 7, 3), G_TENSOR(7, 3), G_TENSOR(8, 3), G_TENSOR(9, 3), G_TENSOR(10, 3) },
      2,
      1,
      0 },
    { "max-pool", f_pool, { apart(2 * 6 * 3, 2, 6, 3) }, 0, 1, 0 },
    { "attention",
      f_attention,
      { G_TENSOR(13, 2, 4, 3), G_TENSOR(14, 2, 4, 3), G_TENSOR(15, 2, 4, 3) },
      0,
      1,
      0 },
    { "attention of x with itself", f_attention_same, { G_TENSOR(13, 2, 4, 3) }, 0, 1, 0 },
    { "dropout", f_dropout, { G_TENSOR(16, 5, 8) }, 0, 1, 0 },
  };
  rg_tensor *fixed_var = G_TENSOR(17, 3);
  g_case fixed = { "batch norm, fixed statistics",
                   f_norm_fixed,
                   { G_TENSOR(6, 7, 3), G_TENSOR(7, 3), G_TENSOR(8, 3), G_TENSOR(9, 3), fixed_var },
                   2,
                   1,
                   0 };

  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    g_check(&cases[i]);
    g_done(&cases[i]);
  }
  for (int i = 0; i < 3; i++) {
    ((float *)fixed_var->_data)[i] = 0.5f + (float)i;
  }
  g_check(&fixed);
  g_done(&fixed);
}

/* Every set of results that a loss may look at: a gradient that is not there is NULL, not 0. */
static void test_lstm(void)
{
  for (uint32_t unused = 0; unused < (tap_refusing() ? 1 : 7); unused++) {
    g_case c = { "lstm",
                 f_lstm,
                 { G_TENSOR(21, 2, 3, 2), G_TENSOR(22, 2, 3), G_TENSOR(23, 2, 3),
                   G_TENSOR(24, 12, 2), G_TENSOR(25, 12, 3), G_TENSOR(26, 12), G_TENSOR(27, 12) },
                 0,
                 3,
                 unused };

    g_check(&c);
    g_done(&c);
  }
}

/* -- Writes into a view ---------------------------------------------------------- */

/* Columns 1 and 3 of a product get in[2] added, column 0 becomes 2 in[3], then relu over all. */
static rg_status f_view(rg_tensor *const *in, rg_tensor **out)
{
  rg_tensor *odd = NULL;
  rg_tensor *first = NULL;
  rg_status status = t_linear(in[0], in[1], NULL, out);

  if (status == RG_OK) {
    status = rg_narrow(out[0], 1, 1, 2, 2, &odd);
  }
  if (status == RG_OK) {
    status = t_add_(odd, in[2]);
  }
  if (status == RG_OK) {
    status = rg_select(out[0], 1, 0, &first);
  }
  if (status == RG_OK) {
    status = rg_run_into(&t_op_add, IN(in[3], in[3]), 2, NULL, first);
  }
  if (status == RG_OK) {
    status = rg_run_into(&t_op_relu, IN(out[0]), 1, NULL, out[0]);
  }
  rg_tensor_release(odd);
  rg_tensor_release(first);
  return status;
}

static void test_view(void)
{
  /* in[2] is broadcast over the rows it is added to */
  g_case c = { "into a view",
               f_view,
               { G_TENSOR(31, 3, 2), G_TENSOR(32, 4, 2), G_TENSOR(33, 2), G_TENSOR(34, 3) },
               0,
               1,
               0 };

  g_check(&c);
  g_done(&c);
}

static void test_overwritten(void)
{
  rg_tensor *x = G_TENSOR(41, 3, 4);
  rg_tensor *y = NULL;
  rg_tensor *loss = NULL;
  rg_tensor *rest[] = { G_TENSOR(42, 4), G_TENSOR(43, 4), G_TENSOR(44, 4), G_TENSOR(45, 4) };
  t_norm_args args = { .eps = 1, .training = true };
  tape t;

  tape_start(&t);
  tape_watch(&t, x);
  is_status(rg_run1(&t_op_relu, IN(x), 1, NULL, &y), RG_OK, "relu saves its result");
  is_status(t_add_(y, x), RG_OK, "which is written to");
  is_status(rg_run1(&t_op_dot, IN(y, x), 2, NULL, &loss), RG_OK, "then comes a loss");
  is_status(tape_backward(&t, loss), RG_EARG, "and the way back refuses");
  ok(strstr(rg_error_message(), "t_relu") != NULL, "naming the operation");
  tape_stop(&t);
  rg_tensor_release(loss);
  rg_tensor_release(y);

  tape_start(&t);
  tape_watch(&t, x);
  is_status(rg_run_into(&t_op_norm, IN(x, rest[0], rest[1], rest[2], rest[3]), 5, &args, x), RG_OK,
            "batch norm may run in place");
  is_status(rg_run1(&t_op_dot, IN(x, x), 2, NULL, &loss), RG_OK, "a loss of it");
  is_status(tape_backward(&t, loss), RG_EARG, "but has no gradient then");
  tape_stop(&t);
  rg_tensor_release(loss);
  rg_tensor_release(x);
  for (int i = 0; i < 4; i++) {
    rg_tensor_release(rest[i]);
  }
}

/* x[2:] = x[:-1] + y reads what it has not yet overwritten. */
static void test_overlap(void)
{
  rg_tensor *x = G_TENSOR(51, 8);
  rg_tensor *y = G_TENSOR(52, 7);
  rg_tensor *from = NULL;
  rg_tensor *to = NULL;
  float want[7];
  bool same = true;

  for (int i = 0; i < 7; i++) {
    want[i] = ((float *)x->_data)[i] + ((float *)y->_data)[i];
  }
  is_status(rg_narrow(x, 0, 0, 7, 1, &from), RG_OK, "the first seven");
  is_status(rg_narrow(x, 0, 1, 7, 1, &to), RG_OK, "the last seven");
  is_status(rg_run_into(&t_op_add, IN(from, y), 2, NULL, to), RG_OK, "one added into the other");
  for (int i = 0; i < 7; i++) {
    same = same && ((float *)x->_data)[i + 1] == want[i];
  }
  ok(same, "as if the result had been made aside");
  rg_tensor_release(from);
  rg_tensor_release(to);
  rg_tensor_release(x);
  rg_tensor_release(y);
}

/* -- What the record says is what the door does ---------------------------------- */

typedef struct listener {
  rg_recorder recorder;
  int32_t n_out;
  int32_t dtype[2];
} listener;

static rg_status heard(rg_recorder *self, const rg_call *call, rg_tensor *const *out,
                       const rg_frame *frame, int64_t begin_ns)
{
  listener *l = (listener *)self;

  (void)out;
  (void)frame;
  (void)begin_ns;
  if (call->n_in == 2) {
    l->dtype[0] = call->in[0]->_dtype;
    l->dtype[1] = call->in[1]->_dtype;
  }
  l->n_out = call->n_out;
  return RG_OK;
}

static void test_hidden(void)
{
  rg_tensor *x = G_TENSOR(61, 2, 4, 3);
  rg_tensor *y = NULL;
  listener l = { .recorder = { .ran = heard } };

  rg_recorder_push(&l.recorder);
  is_status(f_pool(&x, &y), RG_OK, "a call with a listener");
  is_int(l.n_out, 1, "hidden results are not made when nobody wants them");
  rg_tensor_release(y);
  l.recorder.wants_hidden = true;
  is_status(f_pool(&x, &y), RG_OK, "a call with a listener that wants them");
  is_int(l.n_out, 2, "hidden results are made");
  rg_recorder_pop(&l.recorder);
  rg_tensor_release(y);
  rg_tensor_release(x);
}

/* Two inputs: numbers, converted to f32; and positions, or state where the args say so. */
static rg_status t_types_infer(rg_call *call)
{
  call->compute = rg_autocast_for(call) >= 0 ? rg_autocast_for(call) : RG_F32;
  t_result(call, call->in[0]);
  call->out[0].dtype = call->compute;
  return RG_OK;
}

static rg_status t_types_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame)
{
  (void)call;
  (void)out;
  (void)frame;
  return RG_OK;
}

static bool t_types_writes(const rg_call *call, int32_t i)
{
  (void)call;
  return i == 1;
}

static void test_types(void)
{
  static const rg_op numbers = { .name = "t_numbers",
                                 .id = -1,
                                 .amp = RG_AMP_LOWER,
                                 .infer = t_types_infer,
                                 .kernel = t_types_kernel };
  rg_op positions = numbers;
  rg_op state = numbers;
  rg_tensor *x = NULL;
  rg_tensor *i = NULL;
  rg_tensor *y = NULL;
  listener l = { .recorder = { .ran = heard } };

  positions.as_is = 2;
  state.writes = t_types_writes;
  is_status(rg_empty(RG_F64, RG_CPU, (int64_t[]){ 2 }, 1, &x), RG_OK, "f64");
  is_status(rg_empty(RG_I32, RG_CPU, (int64_t[]){ 2 }, 1, &i), RG_OK, "i32");
  is_status(rg_fill_(x, 1), RG_OK, "numbers");
  is_status(rg_fill_(i, 1), RG_OK, "positions");
  rg_recorder_push(&l.recorder);
  is_status(rg_run1(&numbers, IN(x, i), 2, NULL, &y), RG_OK, "two inputs");
  ok(l.dtype[0] == RG_F32 && l.dtype[1] == RG_F32, "are converted to the type of the call");
  rg_tensor_release(y);
  is_status(rg_run1(&positions, IN(x, i), 2, NULL, &y), RG_OK, "numbers and positions");
  ok(l.dtype[0] == RG_F32 && l.dtype[1] == RG_I32, "positions stay as they are");
  rg_tensor_release(y);
  y = NULL;
  is_status(rg_run1(&state, IN(x, i), 2, NULL, &y), RG_EDTYPE, "state is not converted");
  ok(y == NULL && strstr(rg_error_message(), "written to") != NULL, "and the message says why");
  rg_tensor_release(x);
  x = G_TENSOR(1, 2);
  rg_autocast_set(RG_BF16);
  is_status(rg_run1(&positions, IN(x, i), 2, NULL, &y), RG_OK, "under autocast");
  rg_autocast_set(-1);
  ok(l.dtype[0] == RG_BF16 && l.dtype[1] == RG_I32, "positions do not keep numbers from it");
  rg_recorder_pop(&l.recorder);
  rg_tensor_release(y);
  rg_tensor_release(i);
  rg_tensor_release(x);
}

static void test_given_results(void)
{
  rg_tensor *x = G_TENSOR(71, 2);
  rg_tensor *narrow = G_TENSOR(71, 1);
  rg_tensor *wide = NULL;
  rg_tensor *gone = G_TENSOR(71, 2);

  is_status(rg_expand(narrow, (int64_t[]){ 2 }, 1, &wide), RG_OK, "one element, twice");
  is_status(rg_run_into(&t_op_relu, IN(x), 1, NULL, wide), RG_EARG, "is not written to");
  is_status(rg_run_into(&t_op_relu, IN(x), 1, NULL, narrow), RG_ESHAPE, "nor another shape");
  rg_tensor_drop(gone);
  is_status(rg_run_into(&t_op_relu, IN(x), 1, NULL, gone), RG_ERELEASED, "nor what was released");
  is_status(rg_run_into(&t_op_relu, IN(gone), 1, NULL, x), RG_ERELEASED, "which is not read");
  rg_tensor_release(x);
  rg_tensor_release(narrow);
  rg_tensor_release(wide);
  rg_tensor_release(gone);
}

static void test_writes(void)
{
  rg_tensor *in[] = { G_TENSOR(81, 5, 3), G_TENSOR(82, 3), G_TENSOR(83, 3), G_TENSOR(84, 3),
                      G_TENSOR(85, 3) };
  rg_tensor *y = NULL;
  uint64_t before[5];

  for (int i = 0; i < 5; i++) {
    before[i] = rg_tensor_version(in[i]);
  }
  is_status(f_norm_fixed(in, &y), RG_OK, "with fixed statistics");
  rg_tensor_release(y);
  is_int(rg_tensor_version(in[3]) - before[3], 0, "nothing is written");
  is_status(f_norm(in, &y), RG_OK, "in training");
  rg_tensor_release(y);
  is_int(rg_tensor_version(in[3]) - before[3], 1, "the running mean is");
  is_int(rg_tensor_version(in[4]) - before[4], 1, "and the running variance");
  is_int(rg_tensor_version(in[1]) - before[1], 0, "but no parameter");
  for (int i = 0; i < 5; i++) {
    rg_tensor_release(in[i]);
  }
}

/* -- A whole training step, captured --------------------------------------------- */

enum { STEPS = 1001 };

static int n_steps = STEPS; /* fewer under make memcheck */

static bool same_bits(const rg_tensor *x, const rg_tensor *y)
{
  return memcmp(x->_data, y->_data, (size_t)rg_tensor_bytes(x)) == 0;
}

static void refuses(rg_tensor *x)
{
  float f[16] = { 0 };
  double value = 0;
  rg_tensor *made = NULL;

  is_status(rg_tensor_get(x, (int64_t[]){ 0 }, 1, &value), RG_ECAPTURE, "no element is read");
  is_status(rg_tensor_set(x, (int64_t[]){ 0 }, 1, 1), RG_ECAPTURE, "or set");
  is_status(rg_tensor_read(x, f, rg_tensor_bytes(x)), RG_ECAPTURE, "nothing is read");
  is_status(rg_tensor_write(x, f, rg_tensor_bytes(x)), RG_ECAPTURE, "or written");
  is_status(rg_tensor_from_doubles(&value, 1, RG_F32, NULL, 0, &made), RG_ECAPTURE,
            "no numbers are baked in");
}

static rg_status train_eager(model *m, float *losses)
{
  for (int64_t i = 0; i < n_steps; i++) {
    rg_tensor *loss = NULL;

    RG_TRY(model_feed(m, i));
    RG_TRY(model_step(m, &loss));
    losses[i] = *(float *)loss->_data;
    rg_tensor_release(loss);
  }
  return RG_OK;
}

/* The first step as it is captured, the others replayed. */
static rg_status train_plan(model *m, float *losses, rg_plan **plan)
{
  rg_tensor *loss = NULL;
  rg_status status;

  RG_TRY(model_feed(m, 0));
  RG_TRY(rg_capture_begin());
  refuses(m->lr);
  status = model_step(m, &loss);
  RG_TRY(rg_capture_end(plan));
  for (int64_t i = 0; i < n_steps && status == RG_OK; i++) {
    if (i > 0) {
      status = model_feed(m, i);
      status = status != RG_OK ? status : rg_plan_replay(*plan, 1);
    }
    losses[i] = *(float *)loss->_data;
  }
  rg_tensor_release(loss);
  return status;
}

static void test_training(void)
{
  static float eager_loss[STEPS];
  static float plan_loss[STEPS];
  model eager;
  model planned;
  rg_plan *plan = NULL;
  rg_plan_facts facts = { 0 };
  int64_t tensors = rg_live_tensors();
  bool same = true;
  int first;

  n_steps = tap_refusing() ? 2 : STEPS;
  first = n_steps;
  model_make(&eager);
  model_make(&planned);
  is_status(train_eager(&eager, eager_loss), RG_OK, "1001 steps, each on its own");
  is_status(train_plan(&planned, plan_loss, &plan), RG_OK, "1 step captured, then 1000 replays");
  for (int i = n_steps - 1; i >= 0; i--) {
    first = memcmp(&eager_loss[i], &plan_loss[i], sizeof(float)) == 0 ? first : i;
  }
  is_int(first, n_steps, "every loss is the same, bit for bit");
  for (int i = 0; i < P_COUNT; i++) {
    same = same && same_bits(eager.p[i], planned.p[i]) && same_bits(eager.m[i], planned.m[i]) &&
           same_bits(eager.v[i], planned.v[i]);
  }
  ok(same, "so is every parameter and every moment");
  ok(same_bits(eager.run_mean, planned.run_mean) && same_bits(eager.run_var, planned.run_var),
     "so are the running statistics");
  is_int(rg_generator_offset(planned.generator), rg_generator_offset(eager.generator),
         "both streams moved as far");
  ok(*(float *)planned.step->_data == (float)n_steps, "and each counts its steps");
  ok(tap_refusing() || eager_loss[n_steps - 1] < 0.5f * eager_loss[0], "the loss fell");
  is_status(rg_plan_facts_of(plan, &facts), RG_OK, "facts of the plan");
  printf("# training step: %lld operations, %lld bytes of buffers; loss %.4f to %.4f\n",
         (long long)facts.n_steps, (long long)facts.buffer_bytes, (double)eager_loss[0],
         (double)eager_loss[n_steps - 1]);
  rg_plan_release(plan);
  model_drop(&eager);
  model_drop(&planned);
  is_int(rg_live_tensors(), tensors, "nothing is left behind");
}

/* -- What a call costs (told, not tested) ---------------------------------------- */

static rg_status time_add(void)
{
  const int N = tap_refusing() ? 1 : 20000;
  rg_tensor *x = G_TENSOR(91, 64);
  rg_tensor *y = G_TENSOR(92, 64);
  rg_tensor *sum = NULL;
  rg_plan *plan = NULL;
  int64_t begin = rg_clock_ns();
  int64_t middle;
  rg_status status = RG_OK;

  for (int i = 0; i < N && status == RG_OK; i++) {
    status = rg_add(x, y, &sum);
    rg_tensor_release(sum);
    sum = NULL;
  }
  middle = rg_clock_ns();
  printf("# add of 64 floats: %.0f ns eager\n", (double)(middle - begin) / N);
  RG_TRY(status);
  RG_TRY(rg_capture_begin());
  status = rg_add(x, y, &sum);
  RG_TRY(rg_capture_end(&plan));
  begin = rg_clock_ns();
  if (status == RG_OK) {
    status = rg_plan_replay(plan, N);
  }
  printf("# add of 64 floats: %.0f ns replayed\n", (double)(rg_clock_ns() - begin) / N);
  rg_plan_release(plan);
  rg_tensor_release(sum);
  rg_tensor_release(x);
  rg_tensor_release(y);
  return status;
}

int main(void)
{
  int64_t tensors = rg_live_tensors();

  test_gradients();
  test_lstm();
  test_view();
  test_overwritten();
  test_overlap();
  test_hidden();
  test_types();
  test_given_results();
  test_writes();
  test_training();
  is_status(time_add(), RG_OK, "an addition of 64 floats");
  is_int(rg_live_tensors(), tensors, "no tensor is left");
  is_int(rg_memory_of(RG_CPU)->live_bytes, 0, "no memory is left");
  return done();
}
