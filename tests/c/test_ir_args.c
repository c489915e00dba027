/* SPDX-License-Identifier: MIT */
/*
** Arguments of operations out of files of graphs: every type and kind, each border, and what is
** refused.
*/
#include "graph/json.h"
#include "ir.h"
#include "op/fused.h"

/* An operation with an argument of each type, and of whole numbers one of each kind with words. */
typedef struct everything {
  int32_t i32;
  uint32_t u32;
  int64_t i64;
  double f64;
  int64_t i64x2[2];
  rg_meta meta;
  rg_sizes sizes;
  rg_links links;
  int32_t dtype;
  int32_t act;
  int64_t reduction;
} everything;

#define ARG(field, name_, type_, kind_)                              \
  {                                                                  \
    .name = (name_), .type = RG_ARG_##type_, .kind = RG_ARG_##kind_, \
    .offset = offsetof(everything, field)                            \
  }

static const rg_arg rows[] = {
  ARG(i32, "i32", i32, NUMBER),
  ARG(u32, "u32", u32, NUMBER),
  ARG(i64, "i64", i64, NUMBER),
  ARG(f64, "f64", f64, NUMBER),
  ARG(i64x2, "i64x2", i64x2, WHOLE),
  ARG(meta, "meta", meta, FOUND),
  ARG(sizes, "sizes", sizes, SHAPE),
  ARG(links, "links", links, FOUND),
  ARG(dtype, "dtype", i32, DTYPE),
  ARG(act, "act", i32, ACT),
  ARG(reduction, "reduction", i64, REDUCTION),
};

/* Read an object of one argument, the n-th row. */
static rg_status read(int32_t row, const char *value, everything *out)
{
  const rg_op op = { .name = "op", .arg = &rows[row], .n_args = 1, .args_size = sizeof(*out) };
  char text[4096];
  rg_json j;

  (void)snprintf(text, sizeof(text), "{\"%s\": %s}", rows[row].name, value);
  rg_json_open(&j, text, (int64_t)strlen(text));
  bool good = rg_json_args(&j, &op, (char *)out) && rg_json_end(&j);

  ok(good == (j.status == RG_OK), "false with a sentence, and true without");
  rg_json_close(&j);
  return j.status;
}

enum { I32, U32, I64, F64, PAIR, META, SIZES, LINKS, DTYPE, ACT, REDUCTION };

/* What is written so is this number. */
static const struct {
  int32_t row;
  const char *text;
  int64_t is;
} whole[] = {
  { I32, "2147483647", INT32_MAX },
  { I32, "-2147483648", INT32_MIN },
  { U32, "4294967295", UINT32_MAX },
  { U32, "0", 0 },
  { I64, "9223372036854775807", INT64_MAX },
  { I64, "-9223372036854775808", INT64_MIN },
  { DTYPE, "\"bf16\"", RG_BF16 },
  { DTYPE, "\"f32\"", RG_F32 },
  { DTYPE, "-1", -1 },
  { ACT, "\"none\"", RG_ACT_NONE },
  { ACT, "\"gelu\"", RG_ACT_GELU },
  { ACT, "\"sigmoid\"", RG_ACT_SIGMOID },
  { REDUCTION, "\"mean\"", 0 },
  { REDUCTION, "\"none\"", 2 },
};

static void test_whole(void)
{
  for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
    everything args = { .i32 = 7, .i64 = 7 };
    const rg_arg *arg = &rows[whole[i].row];
    const void *at = (const char *)&args + arg->offset;

    is_status(read(whole[i].row, whole[i].text, &args), RG_OK, whole[i].text);
    is_int(arg->type == RG_ARG_i64   ? *(const int64_t *)at
           : arg->type == RG_ARG_u32 ? (int64_t) * (const uint32_t *)at
                                     : (int64_t) * (const int32_t *)at,
           whole[i].is, arg->name);
    ok(whole[i].row == I32 || args.i32 == 0, "what is not given is 0");
  }
}

static void test_others(void)
{
  static const struct {
    const char *text;
    double is;
  } numbers[] = { { "-0.5e-3", -0.5e-3 },
                  { "\"inf\"", INFINITY },
                  { "\"-inf\"", -INFINITY },
                  { "1.79769313486231570815e+308", 1.7976931348623157e308 } };
  everything args;
  uint64_t bits;

  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
    is_status(read(F64, numbers[i].text, &args), RG_OK, numbers[i].text);
    ok(memcmp(&args.f64, &numbers[i].is, sizeof(double)) == 0, "to the last bit");
  }
  is_status(read(F64, "\"nan:fff8000000000123\"", &args), RG_OK, "nan");
  memcpy(&bits, &args.f64, sizeof(bits));
  ok(bits == 0xfff8000000000123u, "with its bits");
  is_status(read(PAIR, "[-3, 4]", &args), RG_OK, "a pair");
  ok(args.i64x2[0] == -3 && args.i64x2[1] == 4, "both of it");
  is_status(read(META, "\"f64[20,3]\"", &args), RG_OK, "a type");
  ok(rg_meta_same(&args.meta, &(rg_meta){ RG_F64, 2, { 20, 3 } }), "and its shape");
  is_status(read(SIZES, "[]", &args), RG_OK, "no sizes");
  is_int(args.sizes.n, 0, "none");
  is_status(read(SIZES, "[1099511627776, -1099511627776, 2, 3, 4, 5, 6, 7]", &args), RG_OK,
            "eight sizes, the largest and the smallest");
  ok(args.sizes.n == 8 && args.sizes.at[0] == (int64_t)1 << 40 &&
         args.sizes.at[1] == -((int64_t)1 << 40) && args.sizes.at[7] == 7,
     "all of them");
}

static void test_links(void)
{
  everything args;
  const rg_link *l = args.links.at;
  char many[2048] = "";

  is_status(read(LINKS,
                 "[{\"op\": \"sub\", \"type\": \"f16\", \"load\": 23, \"with\": 22, "
                 "\"reversed\": 1, \"store\": 7, \"act\": \"gelu\"}, "
                 "{\"type\": \"f64\", \"op\": \"cast\"}]",
                 &args),
            RG_OK, "two links");
  is_int(args.links.n, 2, "two");
  ok(l[0].id == RG_OP_SUB && l[0].dtype == RG_F16 && l[0].load == 23 && l[0].with == 22 &&
         l[0].reversed == 1 && l[0].store == 7 && l[0].act == RG_ACT_GELU,
     "all that the first one says");
  ok(l[1].id == RG_FUSED_CAST && l[1].dtype == RG_F64 && l[1].load == RG_FUSED_NONE &&
         l[1].with == RG_FUSED_NONE && l[1].store == RG_FUSED_NONE && l[1].reversed == 0 &&
         l[1].act == RG_ACT_NONE && l[1].number == 0,
     "and what the second one does not");
  is_status(read(LINKS,
                 "[{\"op\": \"mul\", \"type\": \"f32\", \"number\": 0.5}, "
                 "{\"op\": \"mul\", \"type\": \"f32\", \"with\": \"value\"}]",
                 &args),
            RG_OK, "other operands");
  ok(l[0].with == RG_FUSED_NUMBER && l[0].number == 0.5, "a number");
  is_int(l[1].with, RG_FUSED_VALUE, "and the value itself");
  for (int32_t n = 1; n <= RG_FUSED_LINKS + 1; n++) {
    char text[2100];

    (void)snprintf(many + strlen(many), sizeof(many) - strlen(many),
                   "%s{\"op\": \"neg\", \"type\": \"f32\"}", n > 1 ? "," : "");
    (void)snprintf(text, sizeof(text), "[%s]", many);
    if (n >= RG_FUSED_LINKS) {
      is_status(read(LINKS, text, &args), n > RG_FUSED_LINKS ? RG_EFORMAT : RG_OK,
                "no more links than there is room for");
    }
  }
  ok(SAYS("more than 24 links"), "which is said");
}

/* What is refused, and the sentence. */
static const struct {
  int32_t row;
  const char *text;
  const char *says;
} wrong[] = {
  { I32, "2147483648", "is not in -2147483648 .. 2147483647" },
  { I32, "-2147483649", "is not in" },
  { I32, "1.5", "1.5 is no whole number" },
  { I32, "\"one\"", "i32 is a number" },
  { I32, "x", "a number is expected, and there is 'x'" },
  { U32, "4294967296", "is not in 0 .. 4294967295" },
  { U32, "-1", "is not in" },
  { I64, "9223372036854775808", "is no whole number" },
  { F64, "1e", "1e is no number" },
  { F64, "\"nan\"", "'nan' is no number" },
  { F64, "\"nan:fff800000000012\"", "is no number" },
  { F64, "\"nan:fff80000000001234\"", "is no number" },
  { F64, "\"nan:fff800000000012g\"", "is no number" },
  { F64, "\"nan:3ff0000000000000\"", "is no number" },
  { F64, "\"+inf\"", "'+inf' is no number" },
  { PAIR, "3", "'[' is expected" },
  { PAIR, "[3]", "',' is expected" },
  { PAIR, "[3, 4, 5]", "']' is expected" },
  { PAIR, "[3, x]", "a number is expected" },
  { META, "\"f32\"", "no type with a shape" },
  { SIZES, "3", "'[' is expected" },
  { SIZES, "[1, 2, 3, 4, 5, 6, 7, 8, 9]", "more than 8 axes" },
  { SIZES, "[1099511627777]", "is not in" },
  { SIZES, "[-1099511627777]", "is not in" },
  { SIZES, "[1 2]", "',' is expected" },
  { SIZES, "[1, ]", "a number is expected" },
  { DTYPE, "\"f31\"", "there is no type 'f31'" },
  { DTYPE, "\"\"", "there is no type ''" },
  { DTYPE, "\"f3\"", "there is no type 'f3'" },
  { ACT, "\"gel\"", "there is no act 'gel'" },
  { REDUCTION, "\"max\"", "there is no reduction 'max'" },
  { LINKS, "{}", "'[' is expected" },
  { LINKS, "[{\"op\": \"neg\"}]", "a link has an op and a type" },
  { LINKS, "[{\"type\": \"f32\"}]", "a link has an op and a type" },
  { LINKS, "[{}]", "a link has an op and a type" },
  { LINKS, "[{\"op\": \"matmul\"", "'matmul' is no link of a fused chain" },
  { LINKS, "[{\"op\": \"neg\", \"type\": \"f31\"", "there is no type 'f31'" },
  { LINKS, "[{\"op\": \"neg\", \"act\": \"exp\"", "there is no activation 'exp'" },
  { LINKS, "[{\"op\": \"neg\", \"colour\": 1", "a link has no 'colour'" },
  { LINKS, "[{\"op\": \"neg\", \"load\": 24", "24 is not in 0 .. 23" },
  { LINKS, "[{\"op\": \"neg\", \"load\": -1", "-1 is not in 0 .. 23" },
  { LINKS, "[{\"op\": \"neg\", \"with\": 24", "24 is not in 0 .. 23" },
  { LINKS, "[{\"op\": \"neg\", \"with\": \"x\"", "'x' is no operand" },
  { LINKS, "[{\"op\": \"neg\", \"reversed\": 2", "2 is not in 0 .. 1" },
  { LINKS, "[{\"op\": \"neg\", \"store\": 8", "8 is not in 0 .. 7" },
  { LINKS, "[{\"op\": \"neg\", \"with\": 1, \"number\": 2", "a link has one second operand" },
  { LINKS, "[{\"op\": \"neg\", \"number\": 1, \"with\": 2", "a link has one second operand" },
};

static void test_wrong(void)
{
  everything args;

  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    if (!ok(read(wrong[i].row, wrong[i].text, &args) == RG_EFORMAT && SAYS(wrong[i].says),
            wrong[i].says)) {
      printf("#   of %s, got %s\n", wrong[i].text, rg_error_message());
    }
  }
}

/* Objects: each argument once, in any order, and no others. */
static void test_objects(void)
{
  static const struct {
    const char *text;
    const char *says;
  } each[] = {
    { "{\"u32\": 2, \"i32\": 1}", NULL },
    { "{\"i32\": 1}", "op is without its u32, which this version of ridge gives it" },
    { "{\"u32\": 2}", "op is without its i32, which this version of ridge gives it" },
    { "{}", "op is without its i32" },
    { "{\"i32\": 1, \"i32\": 1, \"u32\": 2}", "op is given its i32 twice" },
    { "{\"u32\": 1, \"u32\": 1, \"i32\": 2}", "op is given its u32 twice" },
    { "{\"i32\": 1, \"u32\": 2, \"i64\": 3}", "op has no argument 'i64'" },
    { "[]", "'{' is expected" },
    { "{\"i32\" 1}", "':' is expected" },
    { "{\"i32\": 1 \"u32\": 2}", "',' is expected" },
  };
  const rg_op op = { .name = "op", .arg = rows, .n_args = 2, .args_size = sizeof(everything) };

  for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
    everything args;
    rg_json j;

    rg_json_open(&j, each[i].text, (int64_t)strlen(each[i].text));
    bool good = rg_json_args(&j, &op, (char *)&args);

    ok(each[i].says == NULL ? good && j.status == RG_OK && args.i32 == 1 && args.u32 == 2
                            : !good && j.status == RG_EFORMAT && SAYS(each[i].says),
       each[i].text);
    rg_json_close(&j);
  }
}

/* No record has more than there is room for where one is read or a view is followed. */
static void test_records(void)
{
  int32_t larger = 0;

  for (int32_t i = 0; i < rg_record_count(); i++) {
    larger += rg_ops[i]->args_size > RG_IR_MOST_ARGS || rg_ops[i]->n_args > RG_IR_MOST_ARGS_OF;
  }
  is_int(larger, 0, "no record of so many arguments");
}

int main(void)
{
  test_records();
  test_whole();
  test_others();
  test_links();
  test_wrong();
  test_objects();
  return done();
}
