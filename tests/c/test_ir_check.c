/* SPDX-License-Identifier: MIT */
/*
** Every invariant of a graph, broken once; and every allocation of a graph's life refused once.
*/
#include "ir.h"
#include "op/step.h"

extern const rg_op rg_op_sgd_step;

/* One mistake: what it does to the sample, and what is said then. */
typedef struct mistake {
  const char *says;
  void (*make)(sample *s);
} mistake;

#define VALUE(v)   rg_ir_value_at(s->g, s->v)
#define NODE_OF(v) rg_ir_node_at(s->g, producer(s->g, s->v))
#define MISTAKE(name, body)   \
  static void name(sample *s) \
  {                           \
    body;                     \
  }

/* The dropout again, as a part that is computed again does it: node 9. */
static rg_ir_node *second(sample *s)
{
  const rg_dropout_args p = { .p = 0.25 };
  int32_t value = node_of(s->g, &rg_op_dropout, (const int32_t[]){ s->over }, 1, &p, -1);
  rg_ir_node *node = rg_ir_node_at(s->g, producer(s->g, value));

  node->recomputed = true;
  node->repeats = producer(s->g, s->dropped);
  return node;
}

/* The one reader of x, the linear function. */
static rg_ir_use *use_of(sample *s)
{
  return (rg_ir_use *)(uintptr_t)rg_ir_uses(s->g, rg_ir_value_at(s->g, s->x));
}

/* clang-format off */
MISTAKE(no_storage, VALUE(y)->storage = 99)
MISTAKE(storage_behind, VALUE(y)->storage = rg_ir_n_storages(s->g))
MISTAKE(storage_before, VALUE(y)->storage = -1)
MISTAKE(no_version, VALUE(y)->version = -1)
MISTAKE(few_axes, VALUE(x)->meta.ndim = -1)
MISTAKE(first_kind, VALUE(x)->kind = -1)
MISTAKE(last_kind, VALUE(x)->kind = RG_VALUE_KIND_COUNT)
MISTAKE(over_input, VALUE(x)->was = s->w)
MISTAKE(state_behind, must(rg_ir_graph_state(s->g, rg_ir_n_values(s->g))))
MISTAKE(input_behind, must(rg_ir_graph_input(s->g, rg_ir_n_values(s->g))))
MISTAKE(state_before, must(rg_ir_graph_state(s->g, -2)))
MISTAKE(input_gone, {
  int32_t more = outside(s->g, RG_VALUE_INPUT, "more", 2, 3);

  rg_ir_value_at(s->g, more)->removed = true;
})
MISTAKE(state_gone, {
  int32_t more = outside(s->g, RG_VALUE_STATE, "more", 2, 3);

  rg_ir_value_at(s->g, more)->removed = true;
})
MISTAKE(use_output_behind, use_of(s)->node = RG_IR_NONE; use_of(s)->slot = 1)
MISTAKE(use_output_before, use_of(s)->node = RG_IR_NONE; use_of(s)->slot = -1)
MISTAKE(use_before, use_of(s)->node = -2)
MISTAKE(use_slot_before, use_of(s)->slot = -1)
MISTAKE(use_made, use_of(s)->slot = 3)
MISTAKE(use_last, { /* the second of two */
  rg_ir_use *use = (rg_ir_use *)(uintptr_t)rg_ir_uses(s->g, VALUE(y));

  use[1].slot = 0;
})
MISTAKE(over_behind, VALUE(over)->was = rg_ir_n_values(s->g))
MISTAKE(over_old, {
  int32_t value = node_of(s->g, &rg_op_relu, (const int32_t[]){ s->over }, 1, NULL, s->z);

  rg_ir_value_at(s->g, value)->version = 2;
})
MISTAKE(over_far, {
  int32_t value = node_of(s->g, &rg_op_relu, (const int32_t[]){ s->over }, 1, NULL, s->over);

  rg_ir_value_at(s->g, value)->version = 3;
})
MISTAKE(too_few_results, {
  rg_ir_node_at(s->g, producer(s->g, s->sum))->n_results = 0;
})
MISTAKE(too_many_hidden, {
  NODE_OF(dropped)->complete = false;
  must(rg_ir_output_skip(s->g, producer(s->g, s->dropped)));
  must(rg_ir_output_skip(s->g, producer(s->g, s->dropped)));
})
MISTAKE(repeats_behind, second(s)->repeats = rg_ir_n_nodes(s->g))
MISTAKE(repeats_end, { /* where there is room for no more */
  while (rg_ir_n_nodes(s->g) < 15) {
    (void)unary(s->g, &rg_op_neg, s->y);
  }
  second(s)->repeats = 16;
})
MISTAKE(repeats_before, second(s)->repeats = -2)
MISTAKE(repeats_other_function, {
  (void)second(s);
  NODE_OF(dropped)->op = &rg_op_copy;
  NODE_OF(dropped)->draw = 0;
})
MISTAKE(output_behind, ((rg_ir_output *)(uintptr_t)rg_ir_output_at(s->g, 0))->value =
                           rg_ir_n_values(s->g))
MISTAKE(output_before, ((rg_ir_output *)(uintptr_t)rg_ir_output_at(s->g, 0))->value = -2)
MISTAKE(overcounted, VALUE(over)->n_uses++)
MISTAKE(many_axes, VALUE(x)->meta.ndim = 9)
MISTAKE(no_type, VALUE(x)->meta.dtype = 77)
MISTAKE(wrong_kind, VALUE(y)->kind = RG_VALUE_INPUT)
MISTAKE(kindless, VALUE(x)->kind = RG_VALUE_INTERMEDIATE)
MISTAKE(unknown_kind, VALUE(x)->kind = 9)
MISTAKE(old_input, VALUE(x)->version = 1)
MISTAKE(made_state, must(rg_ir_graph_state(s->g, s->y)))
MISTAKE(made_input, must(rg_ir_graph_input(s->g, s->y)))
MISTAKE(late, must(rg_ir_set_input(s->g, producer(s->g, s->z), 0, s->sum)))
MISTAKE(stale, must(rg_ir_set_input(s->g, producer(s->g, s->sum), 0, s->z)))
MISTAKE(use_slot, use_of(s)->slot = 1)
MISTAKE(use_node, use_of(s)->node = producer(s->g, s->sum))
MISTAKE(use_output, use_of(s)->node = RG_IR_NONE)
MISTAKE(use_behind, use_of(s)->node = rg_ir_n_nodes(s->g))
MISTAKE(use_end, { /* behind it stands what the next node reads, which is the same value */
  rg_ir_use *use = (rg_ir_use *)(uintptr_t)rg_ir_uses(s->g, VALUE(dropped));

  use->slot = rg_ir_node_at(s->g, use->node)->n_in + rg_ir_node_at(s->g, use->node)->n_out;
})
MISTAKE(gone, VALUE(w)->removed = true)
MISTAKE(elsewhere, VALUE(w)->device = 1)
MISTAKE(made_elsewhere, VALUE(y)->device = 1)
MISTAKE(other_producer, VALUE(y)->producer = 3)
MISTAKE(other_result, VALUE(y)->result = 1)
MISTAKE(over_nothing, VALUE(over)->was = 99)
MISTAKE(over_later, VALUE(over)->was = s->sum)
MISTAKE(over_other_shape, VALUE(over)->meta.shape[0] = 9)
MISTAKE(over_other_storage, VALUE(over)->was = s->y)
MISTAKE(skipped_version, VALUE(over)->version = 2)
MISTAKE(no_write, VALUE(over)->was = -1)
MISTAKE(shared_storage, VALUE(dropped)->storage = VALUE(y)->storage)
MISTAKE(outside_storage, VALUE(dropped)->storage = VALUE(w)->storage)
MISTAKE(new_version, VALUE(y)->version = 1)
MISTAKE(extra, {
  int32_t value;
  int32_t storage;

  must(rg_ir_storage_new(s->g, &storage));
  must(rg_ir_output_add(s->g, producer(s->g, s->sum), &VALUE(sum)->meta, RG_CPU, storage, 0, -1,
                        &value));
})
MISTAKE(no_state, {
  static const char zero[64];

  (void)node_of(s->g, &rg_op_add, (const int32_t[]){ s->x, s->x }, 2, zero, s->x);
})
MISTAKE(refused, VALUE(w)->meta.shape[1] = 5)
MISTAKE(wrong_shape, VALUE(sum)->meta.shape[1] = 5)
MISTAKE(wrong_type, VALUE(sum)->meta.dtype = RG_F64)
MISTAKE(wrong_compute, {
  rg_graph_modes modes = *rg_ir_modes_of(s->g, NODE_OF(sum)->modes);

  modes.compute = RG_BF16;
  must(rg_ir_modes_add(s->g, &modes, &NODE_OF(sum)->modes));
})
MISTAKE(too_many_results, {
  rg_ir_node_at(s->g, producer(s->g, s->sum))->complete = false;
  must(rg_ir_output_skip(s->g, producer(s->g, s->sum)));
})
MISTAKE(result_left_out, {
  int32_t node;

  must(rg_ir_node_add(s->g, &rg_op_relu, &s->sum, 1, NULL, &node));
  must(rg_ir_output_skip(s->g, node));
})
MISTAKE(draws_not, NODE_OF(sum)->draw = 1)
MISTAKE(draw_order, NODE_OF(dropped)->draw = 1)
MISTAKE(draw_lost, {
  NODE_OF(dropped)->op = &rg_op_relu;
  NODE_OF(dropped)->draw = -1;
})
MISTAKE(repeats_nothing, second(s)->repeats = -1)
MISTAKE(repeats_plainly, second(s)->recomputed = false)
MISTAKE(repeats_itself, second(s)->repeats = 9)
MISTAKE(repeats_far, second(s)->repeats = 99)
MISTAKE(repeats_no_draw, second(s)->repeats = producer(s->g, s->z))
MISTAKE(repeats_a_repeat, {
  (void)second(s);
  second(s)->repeats = 9;
})
MISTAKE(repeats_other_args,
        ((rg_dropout_args *)(uintptr_t)rg_ir_args(s->g, second(s)))->p = 0.5)
MISTAKE(repeats_other_size, {
  (void)second(s);
  must(rg_ir_set_input(s->g, 9, 0, s->w));
  rg_ir_value_at(s->g, rg_ir_outputs(s->g, rg_ir_node_at(s->g, 9))[0])->meta.shape[0] = 3;
})
MISTAKE(repeats_other_stream, {
  rg_generator *stream;

  must(rg_generator_new(1, &stream));
  must(rg_ir_generator_add(s->g, stream, &second(s)->generator));
  rg_generator_release(stream);
})
MISTAKE(repeats_without_drawing, NODE_OF(sum)->repeats = producer(s->g, s->dropped))
MISTAKE(hands_out_nothing, must(rg_ir_output_share(s->g, s->compound, s->sum)))
MISTAKE(stale_output, returned(s->g, s->z, "z"))
MISTAKE(no_output, ((rg_ir_output *)(uintptr_t)rg_ir_output_at(s->g, 0))->value = 55)
MISTAKE(miscounted, VALUE(y)->n_uses--)
MISTAKE(never_made, {
  int32_t value;

  must(rg_ir_output_add(s->g, producer(s->g, s->written), &VALUE(sum)->meta, RG_CPU,
                        VALUE(written)->storage, 1, s->state, &value));
  NODE_OF(written)->n_out--;
  VALUE(state)->n_uses--;
})
MISTAKE(twice, ((int32_t *)(uintptr_t)rg_ir_outputs(s->g, NODE_OF(sum)))[0] = s->y)
MISTAKE(missing, ((int32_t *)(uintptr_t)rg_ir_outputs(s->g, NODE_OF(sum)))[0] = 99)
/* clang-format on */

static const mistake mistakes[] = {
  { "%3 is in storage 99", no_storage },
  { "%0 says that node 0 needs it at 1, which does not", use_slot },
  { "%0 says that node 7 needs it at 0, which does not", use_node },
  { "%0 says that node -1 needs it at 0, which does not", use_output },
  { "%0 says that node 9 needs it at 0, which does not", use_behind },
  { "%6 says that node 4 needs it at 2, which does not", use_end },
  { "%3 is in storage 9, version 0, which is none", storage_behind },
  { "%3 is in storage -1, version 0, which is none", storage_before },
  { "%0 has -1 axes", few_axes },
  { "%0 is of kind -1", first_kind },
  { "%0 is of kind 5", last_kind },
  { "%0 is version 0 of its storage, and no node made it", over_input },
  { "state 2 is %11, which was not there before", state_behind },
  { "input 2 is %11, which was not there before", input_behind },
  { "state 2 is %-2, which was not there before", state_before },
  { "input 2 is %11, which was not there before", input_gone },
  { "state 2 is %11, which was not there before", state_gone },
  { "%0 says that node -1 needs it at 1, which does not", use_output_behind },
  { "%0 says that node -1 needs it at -1, which does not", use_output_before },
  { "%0 says that node -2 needs it at 0, which does not", use_before },
  { "%0 says that node 0 needs it at -1, which does not", use_slot_before },
  { "%0 says that node 0 needs it at 3, which does not", use_made },
  { "%3 says that node 7 needs it at 0, which does not", use_last },
  { "node 2 (relu) writes over %11, which is not there", over_behind },
  { "makes %11, version 2 of a storage, over %4, version 0, while it is at version 1", over_old },
  { "makes %11, version 3 of a storage, over %5, version 1, while it is at version 1", over_far },
  { "node 7 (add) makes %9, which is neither a result nor written over another value",
    too_few_results },
  { "node 3 (dropout) has 3 results, and its record makes 2", too_many_hidden },
  { "repeats node 10, which does not draw before it", repeats_behind },
  { "repeats node 16, which does not draw before it", repeats_end },
  { "repeats node -2, which does not draw before it", repeats_before },
  { "is said to draw, and its record does not", repeats_other_function },
  { "output 1 is %11, which no node makes", output_behind },
  { "output 1 is %-2, which no node makes", output_before },
  { "%5 is needed 1 times and says 2", overcounted },
  { "version -1, which is none", no_version },
  { "%0 has 9 axes", many_axes },
  { "of type 77", no_type },
  { "%3 is of kind 0 and made by node 0", wrong_kind },
  { "%0 is of kind 4 and made by node -1", kindless },
  { "%0 is of kind 9", unknown_kind },
  { "%0 is version 1 of its storage, and no node made it", old_input },
  { "state 2 is %3, which was not there before", made_state },
  { "input 2 is %3, which was not there before", made_input },
  { "node 1 (gelu) reads %9 before node 7 (add) makes it", late },
  { "node 7 (add) reads %4, version 0 of its storage, behind node 2 (relu), which wrote version 1",
    stale },
  { "node 0 (linear, fc, net.lua:12) reads %1, which is not there", gone },
  { "node 0 (linear, fc, net.lua:12) reads %1 on cuda:0 beside a value on cpu", elsewhere },
  { "makes %3 on cuda:0 out of values on cpu", made_elsewhere },
  { "makes %3, which says that node 3 does", other_producer },
  { "makes %3, which says that node 0 does", other_result },
  { "node 2 (relu) writes over %99, which is not there", over_nothing },
  { "node 2 (relu) writes over %9, which is not there", over_later },
  { "node 2 (relu) makes %5, f32[9,3], over %4, f32[2,3]", over_other_shape },
  { "over %3, f32[2,3], which is in storage 3 and not in 4", over_other_storage },
  { "makes %5, version 2 of a storage, over %4, version 0, while it is at version 0",
    skipped_version },
  { "makes %5 in storage 4, which was there, and does not write it", no_write },
  { "makes %6 in storage 3, which was there, and does not write it", shared_storage },
  { "makes %6 in storage 1, which was there, and does not write it", outside_storage },
  { "makes %3, version 1 of a storage at version 0, and does not write it", new_version },
  { "makes %11, which is neither a result nor written over another value", extra },
  { "node 9 (add) writes over %0, which was there before and is no state", no_state },
  { "is refused by its record: linear", refused },
  { "node 7 (add) makes %9, f32[2,5], and its record says f32[2,3]", wrong_shape },
  { "node 7 (add) makes %9, f64[2,3], and its record says f32[2,3]", wrong_type },
  { "node 7 (add) computes in type", wrong_compute },
  { "node 7 (add) has 2 results, and its record makes 1", too_many_results },
  { "node 9 (relu) leaves its result 1 out", result_left_out },
  { "node 7 (add) is said to draw", draws_not },
  { "node 3 (dropout) is draw 2, and draw 1 is due", draw_order },
  { "0 nodes draw, and 1 were recorded", draw_lost },
  { "node 9 (dropout) is computed again and does not say whose draw it repeats", repeats_nothing },
  { "repeats the draw of node 3 and is not computed again", repeats_plainly },
  { "repeats node 9, which does not draw before it", repeats_itself },
  { "repeats node 99, which does not draw before it", repeats_far },
  { "repeats node 1, which does not draw before it", repeats_no_draw },
  { "node 10 (dropout) repeats the draw of node 9, which repeats that of node 3",
    repeats_a_repeat },
  { "repeats the draw of node 3 (dropout), which draws otherwise", repeats_other_args },
  { "repeats the draw of node 3 (dropout), which draws otherwise", repeats_other_size },
  { "repeats the draw of node 3 (dropout), which draws otherwise", repeats_other_stream },
  { "node 7 (add) is said to draw, and its record does not", repeats_without_drawing },
  { "hands out %9, which its body does not make", hands_out_nothing },
  { "output 2 is %4, version 0 of its storage, which node 2 (relu) wrote later", stale_output },
  { "output 1 is %55, which no node makes", no_output },
  { "%3 is needed 2 times and says 1", miscounted },
  { "%11 is to be made by node 8, which does not", never_made },
  { "node 7 (add) makes %3, which says that node 0 does", twice },
  { "node 7 (add) makes %99, which is not there", missing },
};

static void test_mistakes(void)
{
  for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
    sample s = sample_graph();

    mistakes[i].make(&s);
    ok(rg_graph_check(s.g) == RG_EBUG && SAYS(mistakes[i].says), mistakes[i].says);
    if (!SAYS(mistakes[i].says)) {
      printf("#   got %s\n", rg_error_message());
    }
    rg_tensor *out[8] = { NULL };
    rg_plan *plan = NULL;

    ok(rg_graph_plan(s.g, out, &plan) == RG_EBUG && SAYS(mistakes[i].says) && plan == NULL,
       "and makes no plan");
    rg_graph_release(s.g);
  }
}

/* What is computed again draws what its first run did; what takes no numbers need not say whose. */
static void test_repeats(void)
{
  sample s = sample_graph();
  rg_graph *copy = NULL;

  (void)second(&s);
  is_status(rg_graph_check(s.g), RG_OK, "a draw that is repeated");
  is_status(rg_graph_copy(s.g, &copy), RG_OK, "and copied");
  is_int(rg_ir_node_at(copy, 9)->repeats, 3, "repeats the same one");
  is_status(rg_graph_same(s.g, copy), RG_OK, "in the same graph");
  rg_ir_node_at(copy, 9)->repeats = -1;
  ok(rg_graph_same(s.g, copy) != RG_OK, "which it is not where it draws its own");
  rg_graph_release(copy);
  rg_ir_node *node = second(&s);

  ((rg_dropout_args *)(uintptr_t)rg_ir_args(s.g, node))->p = 0;
  node->repeats = -1;
  is_status(rg_graph_check(s.g), RG_OK, "a dropout of 0");
  rg_graph_release(s.g);
}

/* The first node may be the one whose draw is repeated, and hidden results may be left out. */
static void test_first_draw(void)
{
  const rg_dropout_args p = { .p = 0.25 };
  int32_t value;
  rg_graph *g;

  must(rg_ir_new(&g));
  const int32_t x = outside(g, RG_VALUE_INPUT, "x", 2, 3);

  for (int32_t i = 0; i < 2; i++) {
    value = node_of(g, &rg_op_dropout, &x, 1, &p, -1);
    rg_ir_node_at(g, i)->complete = false;
    must(rg_ir_output_skip(g, i));
    rg_ir_results_end(g, i);
    rg_ir_node_at(g, i)->recomputed = i == 1;
    rg_ir_node_at(g, i)->repeats = i == 1 ? 0 : -1;
  }
  returned(g, value, "");
  if (!is_status(rg_graph_check(g), RG_OK, "a draw of the first node that is repeated")) {
    printf("# %s\n", rg_error_message());
  }
  rg_graph_release(g);
}

/* A node of a body that stands behind what follows the body. */
static void test_bodies(void)
{
  sample s = sample_graph();

  rg_ir_node_at(s.g, producer(s.g, s.written))->parent = s.compound;
  ok(rg_graph_check(s.g) == RG_EBUG &&
         SAYS("node 8 (add) stands outside of node 4 (softmax), whose body it is in"),
     "a body is in one piece");
  rg_graph_release(s.g);
}

/* What an optimizer's step writes has a later version. */
static void test_written_roles(void)
{
  for (int32_t forgotten = 0; forgotten < 2; forgotten++) {
    const rg_step_args args = { .n = 1, .states = 0 };
    const rg_meta one = { .dtype = RG_F32, .ndim = 1, .shape = { 1 } };
    const rg_meta whole = { .dtype = RG_F64, .ndim = 1, .shape = { 1 } };
    sample s = sample_graph();
    int32_t rate;
    int32_t count;
    int32_t storage;
    int32_t node;
    int32_t value;

    must(rg_ir_storage_new(s.g, &storage));
    must(rg_ir_value_add(s.g, RG_VALUE_INPUT, &one, RG_CPU, storage, NULL, &rate));
    must(rg_ir_storage_new(s.g, &storage));
    must(rg_ir_value_add(s.g, RG_VALUE_STATE, &whole, RG_CPU, storage, NULL, &count));
    must(rg_ir_graph_state(s.g, count));
    const int32_t in[] = { rate, count, -1, s.written, s.sum };

    must(rg_ir_node_add(s.g, &rg_op_sgd_step, in, 5, &args, &node));
    rg_ir_results_end(s.g, node);
    must(rg_ir_output_add(s.g, node, &whole, RG_CPU, storage, 1, count, &value));
    if (!forgotten) {
      must(rg_ir_output_add(s.g, node, &rg_ir_value_at(s.g, s.written)->meta, RG_CPU,
                            rg_ir_value_at(s.g, s.written)->storage, 2, s.written, &value));
      is_status(rg_graph_check(s.g), RG_OK, "a step of an optimizer");
    } else {
      ok(rg_graph_check(s.g) == RG_EBUG &&
             SAYS("node 9 (sgd_step) writes to %10, and makes no version of it"),
         "which says what it writes");
    }
    rg_graph_release(s.g);
  }
}

/* Lists of one length each, of which an argument says how many are in each and how many lists are
** states: every pair of numbers against the inputs there are. */
static void test_lists(void)
{
  enum { MOST_GIVEN = 9 };
  sample s = sample_graph();
  int32_t in[RG_STEP_PARAMS + MOST_GIVEN];
  const rg_meta one = { .dtype = RG_F32, .ndim = 0 };
  const rg_meta count = { .dtype = RG_F64, .ndim = 0 };
  int32_t storage;
  int32_t wrong = 0;
  rg_call call;

  must(rg_ir_storage_new(s.g, &storage));
  must(rg_ir_value_add(s.g, RG_VALUE_INPUT, &one, RG_CPU, storage, NULL, &in[RG_STEP_RATE]));
  must(rg_ir_storage_new(s.g, &storage));
  must(rg_ir_value_add(s.g, RG_VALUE_STATE, &count, RG_CPU, storage, NULL, &in[RG_STEP_COUNT]));
  in[RG_STEP_SCALE] = RG_IR_NONE;
  for (int32_t i = 0; i < MOST_GIVEN; i++) {
    in[RG_STEP_PARAMS + i] = outside(s.g, RG_VALUE_STATE, "p", 2, 3);
  }
  for (int64_t n = -1; n <= 4; n++) {
    for (int64_t states = -3; states <= 2; states++) {
      for (int32_t given = 0; given <= MOST_GIVEN; given++) {
        const rg_step_args args = { .n = n,
                                    .states = states,
                                    .o.sgd.momentum = states > 0 ? 0.9 : 0 };
        /* a parameter, its gradient, and at most one moment, each of them once for all n */
        const bool fits =
            n >= 1 && (states == 0 || states == 1) && given == n * (states == 1 ? 3 : 2);
        const rg_status status =
            rg_ir_infer(s.g, &rg_op_sgd_step, in, RG_STEP_PARAMS + given, &args, -1, &call);

        wrong += fits != (status == RG_OK);
        if (fits != (status == RG_OK) && wrong < 5) {
          printf("# n %d, states %d, given %d: %s\n", (int)n, (int)states, given,
                 status == RG_OK ? "taken" : rg_error_message());
        }
      }
    }
  }
  is_int(wrong, 0, "lists are as long as is said");
  rg_graph_release(s.g);
}

/* A later version of a whole behind a write through a part of it. */
static void test_versions(void)
{
  sample s = sample_graph();
  const rg_ir_value written = *rg_ir_value_at(s.g, s.written);
  int32_t again;

  must(rg_ir_output_add(s.g, written.producer, &written.meta, RG_CPU, written.storage, 1, s.state,
                        &again));
  is_int(rg_ir_node_at(s.g, written.producer)->n_results, 1, "no result by the record");
  is_status(rg_graph_check(s.g), RG_OK, "a second view of what was written");
  (void)added(s.g, again, s.written);
  is_status(rg_graph_check(s.g), RG_OK, "both are read");
  rg_graph_release(s.g);
}

/* -- When memory runs out ---------------------------------------------------------------- */

/* A graph's life, without the harness's answers to failures. */
static rg_status life(void)
{
  static const char zero[64];
  const rg_meta meta = { .dtype = RG_F32, .ndim = 1, .shape = { 4 } };
  rg_graph *g = NULL;
  rg_graph *back = NULL;
  rg_graph *copy = NULL;
  const char *text;
  int32_t x = 0;
  int32_t storage;
  int32_t node = 0;
  rg_ir_text name;
  rg_status status = rg_ir_new(&g);

  if (status != RG_OK) {
    return status;
  }
#define DO(call) status = status == RG_OK ? (call) : status
  DO(rg_ir_storage_new(g, &storage));
  DO(rg_ir_value_add(g, RG_VALUE_INPUT, &meta, RG_CPU, storage, NULL, &x));
  DO(rg_ir_graph_input(g, x));
  for (int32_t i = 0; i < 40; i++) {
    char line[16];

    (void)snprintf(line, sizeof(line), "a.lua:%d", i);
    DO(rg_ir_text_add(g, line, &name));
    DO(rg_ir_node_add(g, &rg_op_add, (const int32_t[]){ x, x }, 2, zero, &node));
    DO(rg_ir_storage_new(g, &storage));
    DO(rg_ir_output_add(g, node, &meta, RG_CPU, storage, 0, -1, &x));
    if (status == RG_OK) {
      rg_graph_modes modes = *rg_ir_modes_of(g, rg_ir_node_at(g, node)->modes);

      modes.compute = RG_F32;
      rg_ir_node_at(g, node)->line = name;
      rg_ir_results_end(g, node);
      DO(rg_ir_modes_add(g, &modes, &rg_ir_node_at(g, node)->modes));
    }
  }
  DO(rg_ir_graph_output(g, &(rg_ir_output){ .value = x }));
  for (int32_t i = 0; i < 20; i++) {
    DO(rg_graph_insert(g, i, i & 1, RG_OP_TANH, &(int32_t){ 0 }, 1, NULL, &node));
  }
  DO(rg_graph_replace(g, 0, x - 3));
  DO(rg_graph_replace(g, x - 3, 0));
  DO(rg_graph_remove(g, node));
  DO(rg_graph_check(g));
  DO(rg_graph_copy(g, &copy));
  if (copy != NULL) {
    DO(rg_graph_same(g, copy));
    DO(rg_graph_print(copy, &text));
    DO(rg_graph_json(copy, &text));
    DO(rg_graph_parse(text, (int64_t)strlen(text), &back));
  }
  rg_graph_release(back);
  rg_graph_release(copy);
  rg_graph_release(g);
  return status;
}

static void test_memory(void)
{
  int64_t n = 0;
  int32_t wrong = 0;
  rg_status status;

  if (tap_refusing()) {
    return;
  }
  do {
    rg_alloc_fail_at(++n);
    status = life();
    wrong += status != RG_OK && status != RG_ENOMEM;
  } while (status != RG_OK && n < 100000);
  ok(rg_alloc_injected(), "what went well was refused nothing");
  rg_alloc_fail_at(0);
  is_int(wrong, 0, "each refusal is told as what it is");
  ok(n > 50 && status == RG_OK, "for every allocation");
}

int main(void)
{
  test_mistakes();
  test_repeats();
  test_first_draw();
  test_bodies();
  test_written_roles();
  test_lists();
  test_versions();
  test_memory();
  return done();
}
