/* SPDX-License-Identifier: MIT */
/*
** Graphs in files: what is written is read as the same graph; what is damaged, or made to do harm,
** is refused with a sentence.
*/
#include <malloc.h>

#include "ir.h"

#include "op/fill.h"
#include "op/step.h"
#include "op/view.h"

static rg_status parsed(const char *text, rg_graph **out)
{
  *out = NULL;
  return rg_graph_parse(text, (int64_t)strlen(text), out);
}

static void test_there_and_back(void)
{
  sample s = sample_graph();
  rg_graph *back = NULL;
  rg_graph *again = NULL;
  const char *text = NULL;
  const char *second = NULL;

  rg_ir_node_at(s.g, producer(s.g, s.sum))->recomputed = true;
  rg_ir_node_at(s.g, producer(s.g, s.sum))->flops = 0.1;
  rg_ir_name(s.g, s.x, text_in(s.g, "a \"name\"\n\\ \xc3\xa9"));
  is_status(rg_graph_json(s.g, &text), RG_OK, "written");
  is_status(parsed(text, &back), RG_OK, "read");
  is_status(rg_graph_same(s.g, back), RG_OK, "the same graph");
  close_to(rg_ir_node_at(back, producer(back, rg_ir_output_at(back, 0)->value))->flops, 0.1, 0,
           "numbers to the last bit");
  is_status(rg_graph_json(back, &second), RG_OK, "written again");
  ok(strcmp(text, second) == 0, "the same text");
  ok(strstr(text, "    {\"op\": \"dropout\", \"in\": [5], \"out\": [6], \"args\": {\"p\": 0.25}") !=
         NULL,
     "a line a node");
  is_status(rg_graph_copy(back, &again), RG_OK, "which can be copied");
  for (int32_t i = 0; i < rg_ir_n_nodes(back); i++) {
    ok(rg_ir_node_at(back, i)->complete, "whatever came behind its results is written over");
  }
  for (int32_t i = 0; i < rg_ir_n_nodes(s.g); i++) { /* a copy keeps the numbers of the nodes */
    is_int(rg_ir_node_at(again, i)->generator, rg_ir_node_at(back, i)->generator, "generators too");
  }
  rg_graph_release(again);
  rg_graph_release(back);
  rg_graph_release(s.g);
}

/* A view: the storage of what it is of, and an argument with a number for each axis. */
static void test_views(void)
{
  static const rg_sizes shapes[] = { { 1, { 6 } }, { 3, { 1, 3, 2 } }, { 2, { -1, 6 } } };
  static const rg_meta metas[] = { { RG_F32, 1, { 6 } },
                                   { RG_F32, 3, { 1, 3, 2 } },
                                   { RG_F32, 2, { 1, 6 } } };
  sample s = sample_graph();
  rg_graph *back = NULL;
  const char *text = NULL;

  for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
    const rg_shape_args args = { .shape = shapes[i] };
    const rg_meta meta = metas[i];
    int32_t node;
    int32_t value;

    must(rg_ir_node_add(s.g, rg_ops[RG_OP_VIEW], &s.x, 1, &args, &node));
    must(rg_ir_output_add(s.g, node, &meta, RG_CPU, rg_ir_value_at(s.g, s.x)->storage, 0, -1,
                          &value));
    rg_ir_results_end(s.g, node);
    returned(s.g, value, "");
    ok(memcmp(rg_ir_args(s.g, rg_ir_node_at(s.g, node)), &args, sizeof(args)) == 0,
       "all numbers are kept");
  }
  is_status(rg_graph_check(s.g), RG_OK, "views are whole");
  is_status(rg_graph_print(s.g, &text), RG_OK, "printed");
  ok(strstr(text, "= view(%0) {shape=[1, 3, 2]}") != NULL, "with their shape");
  is_status(rg_graph_json(s.g, &text), RG_OK, "written");
  is_status(parsed(text, &back), RG_OK, "read");
  is_status(rg_graph_same(s.g, back), RG_OK, "the same");
  rg_graph_release(back);
  rg_graph_release(s.g);
}

/* Numbers that JSON does not have. */
static void test_numbers(void)
{
  const double values[] = { -0.0, INFINITY, -INFINITY, NAN, 5e-324, 0.1, 1e308, 1.0 / 3 };
  rg_graph *g = NULL;
  rg_graph *back = NULL;
  const char *text = NULL;

  must(rg_ir_new(&g));
  for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
    const rg_meta meta = { .dtype = RG_F32, .ndim = 1, .shape = { 3 } };
    const rg_fill_args args = { .meta = meta, .value = values[i] };
    int32_t node;
    int32_t storage;
    int32_t value;

    must(rg_ir_node_add(g, rg_ops[RG_OP_FILL], NULL, 0, &args, &node));
    must(rg_ir_storage_new(g, &storage));
    must(rg_ir_output_add(g, node, &meta, RG_CPU, storage, 0, -1, &value));
    rg_ir_results_end(g, node);
  }
  is_status(rg_graph_json(g, &text), RG_OK, "written");
  is_status(parsed(text, &back), RG_OK, "read");
  is_status(rg_graph_same(g, back), RG_OK, "to the last bit");
  rg_graph_release(back);
  rg_graph_release(g);
}

#define VALUES "{\"ridge_graph\": 1, \"values\": ["
#define X      "{\"id\": 0, \"kind\": \"input\", \"type\": \"f32[2]\", \"storage\": 0}"
#define Y      "{\"id\": 1, \"kind\": \"intermediate\", \"type\": \"f32[2]\", \"storage\": 1}"
#define NODES  VALUES X ", " Y "], \"nodes\": ["
#define REST   "], \"inputs\": [0], \"states\": [], \"outputs\": [{\"value\": 1}]}"
#define RELU   "{\"op\": \"relu\", \"in\": [0], \"out\": [1]}"

static const struct {
  const char *text;
  const char *says;
} hostile[] = {
  { "", "line 1: '{' is expected, and there is its end" },
  { "[]", "'{' is expected, and there is '['" },
  { "\n \t\r\n[]", "line 3: '{' is expected, and there is '['" },
  { "\v[]", "line 1: '{' is expected, and there is a byte" },
  { "{\"graph\": 1}", "this is no graph of ridge's" },
  { "{\"ridge_graph\": 2", "2 is not in 1 .. 1" },
  { "{\"ridge_graph\": 1e400", "no whole number" },
  { VALUES "{}]", "a value has an id, a kind, a type and a storage" },
  { VALUES "{\"id\": 1", "1 is not in 0 .. 0" },
  { VALUES "{\"id\": 99999999999999999999", "no whole number" },
  { VALUES "{\"kind\": \"tensor\"", "there is no kind of value 'tensor'" },
  { VALUES "{\"type\": \"f31[2]\"", "there is no type 'f31'" },
  { VALUES "{\"type\": \"?[2]\"", "there is no type '?'" },
  { VALUES "{\"type\": \"f32\"", "no type with a shape" },
  { VALUES "{\"type\": \"f32[-1]\"", "no shape" },
  { VALUES "{\"type\": \"f32[2,]\"", "no shape" },
  { VALUES "{\"type\": \"f32[2]]\"", "no shape" },
  { VALUES "{\"type\": \"f32[9999999999,9999999999]\"", "no shape" },
  { VALUES "{\"type\": \"f32[1048576,1048576,4]\"", "no shape" },
  { VALUES "{\"type\": \"f32[1,1,1,1,1,1,1,1,1]\"", "no shape" },
  { VALUES "{\"storage\": 5", "5 is not in 0 .. 0" },
  { VALUES "{\"was\": 0", "0 is not in 0 .. -1" },
  { VALUES "{\"device\": \"tpu\"", "there is no device 'tpu'" },
  { VALUES "{\"colour\": 1", "a value has no 'colour'" },
  { VALUES "{\"name\": \"a\\q\"", "an escape that is none" },
  { VALUES "{\"name\": \"a\\u0000\"", "an escape that is none" },
  { VALUES "{\"name\": \"a\\ud800\"", "an escape that is none" },
  { VALUES "{\"name\": \"a\n\"", "does not end in its line" },
  { VALUES "{\"name\": \"a", "a string without an end" },
  { NODES "{\"in\": [0]", "a node begins with its op" },
  { NODES "{\"op\": \"os.execute\"", "there is no operation 'os.execute'" },
  { NODES "{\"op\": \"relu\", \"in\": [2]", "2 is not in 0 .. 1" },
  { NODES "{\"op\": \"relu\", \"in\": [1], \"out\": [1]}", "%1 is needed before a node makes it" },
  { NODES "{\"op\": \"relu\", \"in\": [0], \"out\": [0]}", "%0 is made a second time" },
  { NODES RELU ", " RELU, "%1 is made a second time" },
  { NODES "{\"op\": \"softmax\", \"in\": [0], \"out\": [1]}", "without its args" },
  { NODES "{\"op\": \"softmax\", \"args\": {}", "softmax is without its axis" },
  { NODES "{\"op\": \"softmax\", \"args\": {\"axes\": 0}", "softmax has no argument 'axes'" },
  { NODES "{\"op\": \"softmax\", \"args\": {\"axis\": 4294967296}", "not in" },
  { NODES "{\"op\": \"softmax\", \"args\": {\"axis\": \"last\"}", "axis is a number" },
  { NODES "{\"op\": \"relu\", \"colour\": 1", "a node has no 'colour'" },
  { NODES "{\"op\": \"relu\", \"gemm\": \"mkl\"", "'mkl' is no gemm" },
  { NODES "{\"op\": \"relu\", \"gemm\": 4", "'\"' is expected" },
  { NODES "{\"op\": \"relu\", \"compute\": \"f31\"", "'f31' is no compute" },
  { NODES "{\"op\": \"relu\", \"deterministic\": 2", "2 is not in 0 .. 1" },
  { NODES "{\"op\": \"relu\", \"autotune\": 3", "3 is not in 0 .. 2" },
  { NODES "{\"op\": \"relu\", \"vendor\": -1", "-1 is not in 0 .. 1" },
  { NODES "{\"op\": \"relu\", \"in\": [0], \"out\": [1], \"body\": 3}" REST,
    "body is not complete" },
  { NODES "{\"op\": \"relu\", \"in\": [0], \"out\": [1], \"body\": 1}, "
          "{\"op\": \"relu\", \"in\": [0], \"out\": [1], \"body\": 1}",
    "a body is larger than the one it is in" },
  { NODES "{\"op\": \"relu\", \"in\": [0], \"out\": [1], \"generator\": 1001}", "1001 is not in" },
  { NODES RELU "], \"inputs\": [0, 1], \"states\": [], \"outputs\": []}", "input 2 is %1" },
  { NODES RELU "], \"inputs\": [2]", "2 is not in 0 .. 1" },
  { NODES RELU "], \"inputs\": [-1]", "-1 is not in 0 .. 1" },
  { NODES RELU "], \"inputs\": [0], \"states\": [2]", "2 is not in 0 .. 1" },
  { NODES RELU "], \"inputs\": [0], \"states\": [], \"outputs\": [{\"value\": 2",
    "2 is not in 0 .. 1" },
  { NODES "{\"op\": \"relu\", \"in\": [0], \"out\": [2]", "2 is not in 0 .. 1" },
  { NODES RELU "], \"inputs\": [0], \"states\": [], \"outputs\": [{}]}", "without a value" },
  { NODES RELU "], \"inputs\": [0], \"outputs\": []", "'states' is expected" },
  { NODES RELU REST " x", "the graph is over, and there is 'x'" },
  { NODES RELU REST " ~", "the graph is over, and there is '~'" }, /* the last that is printed */
  { NODES RELU REST " \x7f", "the graph is over, and there is a byte" },
  { NODES "{\"op\": \"relu\", \"in\": [], \"out\": [1]}" REST, "relu: a tensor is expected" },
  { NODES "{\"op\": \"relu\", \"in\": [0, 0], \"out\": [1]}" REST, "2 tensors given" },
  { NODES "{\"op\": \"relu\", \"in\": [0], \"out\": []}" REST, "%1 is needed before" },
  { NODES "{\"op\": \"adam_step\", \"in\": [0,0,0,0,0,0,0], \"out\": [], \"args\": {\"n\": 0",
    "expected" },
};

/* Every whole number that a file may hold, behind the value or the node it is said of. */
static const struct {
  const char *text;
  int64_t least;
  int64_t most;
} borders[] = {
  { "{\"ridge_graph\": ", 1, 1 },
  { VALUES "{\"id\": ", 0, 0 },
  { VALUES X ", {\"id\": ", 1, 1 },
  { VALUES "{\"storage\": ", 0, 0 },
  { VALUES X ", {\"storage\": ", 0, 1 },
  { VALUES "{\"version\": ", 0, 1073741823 },
  { VALUES X ", {\"was\": ", 0, 0 },
  { VALUES X ", " Y ", {\"was\": ", 0, 1 },
  { NODES "{\"op\": \"relu\", \"in\": [", 0, 1 },
  { NODES "{\"op\": \"relu\", \"out\": [", 0, 1 },
  { NODES "{\"op\": \"relu\", \"layout\": ", 0, 1 },
  { NODES "{\"op\": \"relu\", \"vendor\": ", 0, 1 },
  { NODES "{\"op\": \"relu\", \"autotune\": ", 0, 2 },
  { NODES "{\"op\": \"relu\", \"deterministic\": ", 0, 1 },
  { NODES "{\"op\": \"relu\", \"tf32\": ", 0, 1 },
  { NODES "{\"op\": \"relu\", \"recomputed\": ", 1, 1 },
  { NODES "{\"op\": \"fill\", \"unwritten\": ", 1, 1 },
  { NODES "{\"op\": \"relu\", \"results\": ", 0, 2147483647 },
  { NODES "{\"op\": \"relu\", \"body\": ", 0, 2147483647 },
  { NODES "{\"op\": \"relu\", \"repeats\": ", 0, 2147483647 },
  { NODES "{\"op\": \"relu\", \"generator\": ", 1, 1000 },
  { NODES RELU "], \"inputs\": [", 0, 1 },
  { NODES RELU "], \"inputs\": [0], \"states\": [", 0, 1 },
  { NODES RELU "], \"inputs\": [0], \"states\": [], \"outputs\": [{\"value\": ", 0, 1 },
};

static void test_borders(void)
{
  for (size_t i = 0; i < sizeof(borders) / sizeof(borders[0]); i++) {
    const int64_t least = borders[i].least;
    const int64_t most = borders[i].most;
    const int64_t numbers[] = { least - 1, least, most, most + 1 };

    for (size_t k = 0; k < 4; k++) {
      char text[512];
      char says[80];
      rg_graph *g;
      const bool within = k == 1 || k == 2;

      (void)snprintf(text, sizeof(text), "%s%lld ", borders[i].text, (long long)numbers[k]);
      (void)snprintf(says, sizeof(says), "%lld is not in %lld .. %lld", (long long)numbers[k],
                     (long long)least, (long long)most);
      is_status(parsed(text, &g), RG_EFORMAT, "a text that is cut off");
      if (!ok(SAYS(within ? "and there is its end" : says), says)) {
        printf("#   of %s, got %s\n", text, rg_error_message());
      }
    }
  }
}

static void test_hostile(void)
{
  rg_graph *g = NULL;

  is_status(parsed(NODES RELU REST, &g), RG_OK, "as it should be");
  rg_graph_release(g);
  for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
    ok(parsed(hostile[i].text, &g) == RG_EFORMAT && SAYS(hostile[i].says) && g == NULL,
       hostile[i].says);
    if (!SAYS(hostile[i].says)) {
      printf("#   got %s\n", rg_error_message());
    }
  }
  is_status(rg_graph_parse(NULL, 0, &g), RG_EARG, "no text");
}

/* What a node says beside what it reads and makes. */
static void test_fields(void)
{
  const rg_fill_args args = { .meta = { .dtype = RG_F32, .ndim = 1, .shape = { 3 } } };
  const rg_dropout_args p = { .p = 0.25 };
  sample s = sample_graph();
  rg_ir_node *node;
  rg_graph_modes modes;
  rg_graph *back = NULL;
  const char *text = NULL;
  int32_t storage;
  int32_t value;
  int32_t fill;
  int32_t drawn = -1;

  for (int32_t i = 0; i < 3; i++) { /* the second one is drawn from twice */
    rg_generator *own;

    must(rg_generator_new(7, &own));
    for (int32_t k = 0; k < (i == 1 ? 2 : 1); k++) {
      drawn = node_of(s.g, &rg_op_dropout, &s.x, 1, &p, -1);
      must(rg_ir_generator_add(s.g, own, &rg_ir_node_at(s.g, producer(s.g, drawn))->generator));
    }
    rg_generator_release(own);
  }
  must(rg_ir_node_add(s.g, rg_ops[RG_OP_FILL], NULL, 0, &args, &fill));
  must(rg_ir_storage_new(s.g, &storage));
  must(rg_ir_output_add(s.g, fill, &args.meta, RG_CPU, storage, 0, -1, &value));
  rg_ir_results_end(s.g, fill);
  rg_ir_node_at(s.g, fill)->unwritten = true;
  rg_ir_node_at(s.g, producer(s.g, s.y))->derived = true;
  node = rg_ir_node_at(s.g, producer(s.g, s.z));
  modes = *rg_ir_modes_of(s.g, node->modes);
  modes = (rg_graph_modes){ .compute = modes.compute,
                            .weight_cast = modes.weight_cast,
                            .autocast = modes.autocast,
                            .layout = 1,
                            .vendor = 0,
                            .autotune = 2,
                            .deterministic = 1,
                            .tf32 = 1,
                            .gemm = 3 };
  must(rg_ir_modes_add(s.g, &modes, &node->modes));
  node->flops = INFINITY;
  node->bytes = 1e300;
  must(rg_graph_json(s.g, &text));
  must(parsed(text, &back));
  is_status(rg_graph_same(s.g, back), RG_OK, "modes, streams and marks, there and back");
  node = rg_ir_node_at(back, producer(s.g, drawn)); /* numbered in the same order */
  ok(node->generator == 3 && rg_ir_generator_of(back, 3) != rg_ir_generator_of(back, 2),
     "each stream is one");
  ok(rg_ir_node_at(back, producer(s.g, s.y))->derived &&
         !rg_ir_node_at(back, producer(s.g, s.z))->derived,
     "what is derived is marked, and nothing else");
  node = rg_ir_node_at(back, producer(s.g, s.z));
  ok(isinf(node->flops) && node->bytes == 1e300, "what it costs");
  rg_graph_release(back);
  rg_graph_release(s.g);
  must(parsed(NODES
              "{\"op\": \"relu\", \"in\": [0, 0], \"in\": [0], \"out\": [0], \"out\": [1]}" REST,
              &back));
  is_int(rg_ir_node_at(back, 0)->n_in, 1, "a list that is given twice is the second one");
  rg_graph_release(back);
  is_status(parsed(NODES "{\"op\": \"relu\", \"unwritten\": 1", &back), RG_EFORMAT,
            "a relu writes");
  ok(SAYS("a node has no 'unwritten'"), "which is said");
}

/* Whatever was made for reading is given back, of a whole text and of one that is cut. */
static void test_memory(const char *text)
{
  enum { FIRST = 10, TIMES = 200 };
  int wrong = 0;
  size_t before = 0;
  rg_graph *g = NULL;

  for (int i = 0; i < TIMES; i++) {
    before = i == FIRST ? mallinfo2().uordblks : before;
    must(parsed(text, &g));
    rg_graph_release(g);
    wrong += rg_graph_parse(text, (int64_t)strlen(text) - 2, &g) == RG_EFORMAT;
  }
  is_int(wrong, TIMES, "cut short");
  /* a block has at least 32 bytes */
  ok(mallinfo2().uordblks < before + (size_t)(TIMES - FIRST) * 32 / 2, "lists are freed");
}

/* A compound in another one, the last of its body, and one without any. */
static void test_nested(void)
{
  const rg_softmax_args axis = { .axis = 1 };
  rg_graph *g;
  rg_graph *back = NULL;
  const char *text = NULL;
  int32_t node[2];

  must(rg_ir_new(&g));
  int32_t x = outside(g, RG_VALUE_INPUT, "x", 2, 3);
  must(rg_ir_node_add(g, &rg_op_softmax, &x, 1, &axis, &node[0]));
  must(rg_ir_begin(g, node[0]));
  int32_t y = unary(g, &rg_op_neg, x);
  must(rg_ir_node_add(g, &rg_op_softmax, &y, 1, &axis, &node[1]));
  must(rg_ir_begin(g, node[1]));
  int32_t z = unary(g, &rg_op_relu, unary(g, &rg_op_gelu, y));
  for (int32_t i = 1; i >= 0; i--) {
    rg_ir_end(g);
    must(rg_ir_output_share(g, node[i], z));
    rg_ir_results_end(g, node[i]);
  }
  must(rg_ir_node_add(g, &rg_op_softmax, &z, 1, &axis, &node[0])); /* gives what it is given */
  must(rg_ir_begin(g, node[0]));
  rg_ir_end(g);
  must(rg_ir_output_share(g, node[0], z));
  rg_ir_results_end(g, node[0]);
  returned(g, unary(g, &rg_op_neg, z), "");
  must(rg_graph_json(g, &text));
  ok(strstr(text, "\"body\": 4") != NULL && strstr(text, "\"body\": 2") != NULL, "four and two");
  must(parsed(text, &back));
  is_status(rg_graph_same(g, back), RG_OK, "one in the other, there and back");
  is_int(rg_ir_node_at(back, node[0])->compound, 1, "and one without a body");
  test_memory(text);
  rg_graph_release(back);
  rg_graph_release(g);
}

/* A step whose lists are said to be of other lengths than they are: nothing behind them is read. */
static void test_lists(void)
{
  static const int64_t wrong[][2] = { { 0, 2 },  { -1, 2 },        { 1, 1000 },     { 4, 2 },
                                      { 1, -1 }, { INT64_MAX, 2 }, { INT64_MIN, 0 } };
  sample s = sample_graph();
  int32_t in[7] = { s.x, s.x, -1, s.x, s.x, s.x, s.x };
  rg_call call;

  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    const rg_step_args args = { .n = wrong[i][0], .states = wrong[i][1] };

    is_status(rg_ir_infer(s.g, rg_ops[RG_OP_ADAM_STEP], in, 7, &args, -1, &call), RG_EARG,
              "lists of other lengths");
  }
  rg_graph_release(s.g);
}

/* Bytes, which are no text any more. */
static void copy_bytes(char *to, const char *from, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    to[i] = from[i];
  }
}

static uint64_t next(uint64_t *state)
{
  *state = *state * 6364136223846793005ull + 1442695040888963407ull;
  return *state >> 33;
}

/* Files cut anywhere, and with bytes, digits and pieces changed: refused, or a whole graph. */
static void test_fuzz(void)
{
  static const char pieces[][12] = { "-1",  "0",        "99999",   "null",      "[", "]",
                                     "{",   "}",        "\"",      ",",         ":", "1e9",
                                     "\\u", "\"relu\"", "\"add\"", "9223372036" };
  sample s = sample_graph();
  const char *text = NULL;
  uint64_t state = 7;
  int32_t refused = 0;
  int32_t wrong = 0;
  int32_t n_runs = tap_refusing() ? 20 : 20000;
  rg_graph *g = NULL;

  must(rg_graph_json(s.g, &text));
  size_t n = strlen(text);
  char *copy = malloc(n + 16);

  for (size_t i = 0; i < n && !tap_refusing(); i++) { /* of its own size: nothing lies behind it */
    char *cut = malloc(i + 1);

    copy_bytes(cut, text, i);
    wrong += i < n - 2 && rg_graph_parse(cut, (int64_t)i, &g) != RG_EFORMAT;
    free(cut);
  }
  is_int(wrong, 0, "cut anywhere");
  for (int32_t i = 0; i < n_runs; i++) {
    size_t length = n;

    copy_bytes(copy, text, n);
    for (uint64_t k = 0; k <= next(&state) % 3; k++) {
      size_t at = next(&state) % n;
      const char *piece = pieces[next(&state) % 16];
      size_t m = strlen(piece);

      if (next(&state) % 2 == 0) {
        copy[at] = (char)next(&state);
      } else if (at + m < n) {
        copy_bytes(copy + at, piece, m);
      }
    }
    rg_status status = rg_graph_parse(copy, (int64_t)length, &g);

    wrong += status != RG_OK && status != RG_EFORMAT && status != RG_ENOMEM;
    refused += status != RG_OK;
    if (status == RG_OK) {
      wrong += rg_graph_check(g) != RG_OK;
      rg_graph_release(g);
    }
  }
  free(copy);
  is_int(wrong, 0, "and changed anywhere");
  ok(refused > n_runs / 2 || tap_refusing(), "most of it is refused");
  rg_graph_release(s.g);
}

/* 20,000 nodes: what is done is done once for each. */
static void test_large(void)
{
  rg_graph *g = NULL;
  rg_graph *back = NULL;
  const char *text = NULL;
  int32_t x;

  must(rg_ir_new(&g));
  x = outside(g, RG_VALUE_INPUT, "x", 8, 8);
  for (int32_t i = 0; i < (tap_refusing() ? 20 : 20000); i++) {
    x = unary(g, &rg_op_relu, x);
  }
  returned(g, x, "y");
  is_status(rg_graph_print(g, &text), RG_OK, "printed");
  is_status(rg_graph_json(g, &text), RG_OK, "written");
  is_status(parsed(text, &back), RG_OK, "read");
  is_status(rg_graph_same(g, back), RG_OK, "the same");
  rg_graph_release(back);
  rg_graph_release(g);
}

int main(void)
{
  test_there_and_back();
  test_views();
  test_numbers();
  test_hostile();
  test_borders();
  test_fields();
  test_nested();
  test_lists();
  test_fuzz();
  test_large();
  return done();
}
