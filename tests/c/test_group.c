/* SPDX-License-Identifier: MIT */
/*
** Groups of ranks over a transport that is memory: what collectives give for any length, type and
** number of ranks, what is refused, and who is said to be missing.
*/
#include "groups.h"

#include <sched.h>
#include <unistd.h>

#include "tensor/half.h"

static _Atomic int32_t yields; /* by all threads */

int sched_yield(void) /* the system's is not called */
{
  atomic_fetch_add(&yields, 1);
  return 0;
}

/* -- What comes out ---------------------------------------------------------------------------- */

enum { LONGEST = 1337 };

static double value(int32_t rank, int64_t i)
{
  return (double)((i * 7 + rank * 13) % 31 - 15);
}

static void put(int32_t dtype, void *to, int64_t i, double x)
{
  switch (dtype) {
  case RG_F32:
    ((float *)to)[i] = (float)x;
    break;
  case RG_F64:
    ((double *)to)[i] = x;
    break;
  case RG_F16:
    ((uint16_t *)to)[i] = rg_f16_of_f32((float)x);
    break;
  case RG_BF16:
    ((uint16_t *)to)[i] = rg_bf16_of_f32((float)x);
    break;
  case RG_I64:
    ((int64_t *)to)[i] = (int64_t)x;
    break;
  case RG_I32:
    ((int32_t *)to)[i] = (int32_t)x;
    break;
  case RG_I8:
    ((int8_t *)to)[i] = (int8_t)x;
    break;
  default:
    ((uint8_t *)to)[i] = (uint8_t)(int64_t)x;
    break;
  }
}

static double get(int32_t dtype, const void *from, int64_t i)
{
  double x = 0;

  if (rg_doubles_from((const char *)from + i * rg_dtype_bytes(dtype), 1, dtype, &x) != RG_OK) {
    tap_bail("no number");
  }
  return x;
}

/* What a type makes of a whole number that may be too large for it: rounded, or wrapped. */
static double in_type(int32_t dtype, double x)
{
  double bytes = 0;
  int64_t whole = (int64_t)x;

  if (dtype == RG_I8) return (int8_t)whole;
  if (dtype == RG_U8) return (uint8_t)whole;
  put(dtype, &bytes, 0, x);
  return get(dtype, &bytes, 0);
}

/* How far a number is from what it should be, which may be infinite. */
static double distance(double x, double should)
{
  double off = x == should ? 0 : fabs(x - should);

  return isnan(off) ? INFINITY : off;
}

/* An element of the result as it should be, in small whole numbers that every type has. */
static double wanted(int32_t op, int32_t dtype, int32_t size, int64_t i)
{
  double sum = 0;
  double product = 1;
  double most = -1e9;
  double least = 1e9;

  for (int32_t r = 0; r < size; r++) {
    double x = value(r, i);

    if (dtype == RG_U8 || dtype == RG_BOOL) x = (double)(uint8_t)(int64_t)x;
    sum += op == RG_GROUP_WEIGHTED ? (r + 1) * x : x;
    product *= x;
    most = x > most ? x : most;
    least = x < least ? x : least;
  }
  if (op == RG_GROUP_MAX) return most;
  if (op == RG_GROUP_MIN) return least;
  if (op == RG_GROUP_PROD) return in_type(dtype, product);
  if (op == RG_GROUP_MEAN) return sum / size;
  if (op == RG_GROUP_WEIGHTED) return sum / (size * (size + 1) / 2.0);
  return dtype == RG_U8 ? (double)(uint8_t)(int64_t)sum : sum;
}

/* What a type leaves of a number of up to 80: half a unit of its last place. */
static double precision(int32_t dtype)
{
  return dtype == RG_BF16 ? 0.26 : dtype == RG_F16 ? 0.032 : dtype == RG_F32 ? 1e-5 : 1e-12;
}

typedef struct memory {
  double in[LONGEST];
  double out[LONGEST * MOST];
} memory;

static memory at[MOST];

static void start_all(rg_group **groups, int32_t size, const rg_group_call *like, int64_t *tickets)
{
  int32_t started = 0;

  for (int32_t r = 0; r < size; r++) {
    rg_group_call call = *like;

    for (int64_t i = 0; i < call.count; i++) {
      put(call.dtype, at[r].in, i, value(r, i));
    }
    memset(at[r].out, 0xff, sizeof(at[r].out));
    call.in = at[r].in;
    call.out = at[r].out;
    call.weight = r + 1;
    started += rg_group_start(groups[r], &call, &tickets[r]) == RG_OK;
  }
  if (started != size) tap_bail(rg_error_message());
}

static void wait_all(rg_group **groups, int32_t size, const int64_t *tickets)
{
  int32_t ended = 0;

  for (int32_t r = 0; r < size; r++) {
    ended += rg_group_wait(groups[r], tickets[r]) == RG_OK && rg_group_ended(groups[r], tickets[r]);
  }
  if (ended != size) tap_bail(rg_error_message());
}

static void test_reduce(rg_group **groups, int32_t size, int64_t count)
{
  int64_t tickets[MOST];

  for (int32_t dtype = 0; dtype < RG_BOOL; dtype++) {
    for (int32_t op = 0; op < RG_GROUP_OPS; op++) {
      const bool whole = rg_dtype_kind(dtype) == RG_KIND_WHOLE;
      double off = 0;
      bool same = true;
      rg_group_call call = { .kind = RG_GROUP_ALL_REDUCE, .op = op, .dtype = dtype, .unit = 1 };

      call.count = count;
      if (whole && (op == RG_GROUP_MEAN || op == RG_GROUP_WEIGHTED)) continue;
      start_all(groups, size, &call, tickets);
      wait_all(groups, size, tickets);
      for (int32_t r = 0; r < size; r++) {
        for (int64_t i = 0; i < count; i++) {
          off = fmax(off, distance(get(dtype, at[r].out, i), wanted(op, dtype, size, i)));
        }
        same = same && memcmp(at[r].out, at[0].out, (size_t)(count * rg_dtype_bytes(dtype))) == 0;
        same = same && ((unsigned char *)at[r].out)[count * rg_dtype_bytes(dtype)] == 0xff;
      }
      close_to(off, 0, precision(dtype), "all_reduce gives what it should");
      ok(same, "in the same bits on all ranks, and nothing behind them");

      call.kind = RG_GROUP_REDUCE_SCATTER;
      call.unit = count % 3 == 0 ? 3 : 1;
      start_all(groups, size, &call, tickets);
      wait_all(groups, size, tickets);
      off = 0;
      for (int32_t r = 0; r < size; r++) {
        int64_t first;
        int64_t part;

        rg_group_part(count / call.unit, r, size, &first, &part);
        for (int64_t i = 0; i < part * call.unit; i++) {
          off = fmax(off, distance(get(dtype, at[r].out, i),
                                   wanted(op, dtype, size, first * call.unit + i)));
        }
      }
      close_to(off, 0, precision(dtype), "reduce_scatter gives each rank its part of that");
    }
  }
}

static void test_moves(rg_group **groups, int32_t size, int64_t count)
{
  int64_t tickets[MOST];
  rg_group_call call = { .kind = RG_GROUP_ALL_GATHER, .dtype = RG_I32, .count = count, .unit = 1 };
  int64_t wrong = 0;

  start_all(groups, size, &call, tickets);
  wait_all(groups, size, tickets);
  for (int32_t r = 0; r < size; r++) {
    for (int64_t i = 0; i < count * size; i++) {
      wrong += get(RG_I32, at[r].out, i) != value((int32_t)(i / count), i % count);
    }
  }
  is_int(wrong, 0, "all_gather has everybody's elements by rank");
  call.kind = RG_GROUP_BROADCAST;
  call.root = size - 1;
  start_all(groups, size, &call, tickets);
  wait_all(groups, size, tickets);
  for (int32_t r = 0; r < size; r++) {
    for (int64_t i = 0; i < count; i++) {
      wrong += get(RG_I32, at[r].out, i) != value(size - 1, i);
    }
  }
  is_int(wrong, 0, "broadcast has those of the root");
}

static void test_results(void)
{
  static const int64_t counts[] = { 0, 1, 3, 4, 600, LONGEST };
  static const int32_t sizes[] = { 1, 2, 3, MOST };

  for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
    net all;
    rg_group *groups[MOST];
    int64_t tickets[MOST];
    rg_group_call barrier = { .kind = RG_GROUP_BARRIER, .unit = 1 };

    open_all(&all, sizes[s], groups);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
      test_reduce(groups, sizes[s], counts[i]);
      test_moves(groups, sizes[s], counts[i]);
    }
    start_all(groups, sizes[s], &barrier, tickets);
    wait_all(groups, sizes[s], tickets);
    close_all(&all, groups);
    is_int(all.ended, sizes[s], "all ranks end the library");
  }
}

/* In place, in an order that only one way of adding up gives; and what has no weight. */
static void test_order(void)
{
  net all;
  rg_group *groups[MOST];
  int64_t tickets[3];
  float x[3][4] = { { 1e8f, 1, 1, NAN }, { 1, 5, NAN, NAN }, { -1e8f, NAN, 2, NAN } };
  static const double weights[3] = { 1, 3, 0 };
  rg_group_call call = { .kind = RG_GROUP_ALL_REDUCE, .dtype = RG_F32, .count = 1, .unit = 1 };

  open_all(&all, 3, groups);
  for (int32_t r = 0; r < 3; r++) {
    call.in = call.out = x[r];
    is_status(rg_group_start(groups[r], &call, &tickets[r]), RG_OK, "in place");
  }
  wait_all(groups, 3, tickets);
  is_int(x[1][0], 0, "1e8 and 1, rounded, and -1e8: by rank");
  call.op = RG_GROUP_WEIGHTED;
  call.count = 4;
  for (int32_t r = 0; r < 3; r++) {
    call.in = call.out = x[r];
    call.weight = weights[r];
    is_status(rg_group_start(groups[r], &call, &tickets[r]), RG_OK, "weighted");
  }
  wait_all(groups, 3, tickets);
  close_to(x[2][1], 4, 0, "what has weight 0 is not looked at");
  ok(isnan(x[0][2]), "nan of what has weight is");
  call.count = 2;
  for (int32_t r = 0; r < 3; r++) {
    call.in = call.out = x[r];
    call.weight = 0;
    is_status(rg_group_start(groups[r], &call, &tickets[r]), RG_OK, "no weight at all");
  }
  wait_all(groups, 3, tickets);
  close_to(x[0][1], 0, 0, "is 0");
  close_all(&all, groups);
}

/* The largest and the smallest of nan, of infinities and of zeros of each sign, whichever rank has
** them; of true and false, of which there is nothing else. */
static void test_picks(void)
{
  static const int32_t ops[] = { RG_GROUP_MAX, RG_GROUP_MIN };
  net all;
  rg_group *groups[MOST];
  int64_t tickets[3];

  open_all(&all, 3, groups);
  for (int32_t i = 0; i < 2 * 3; i++) {
    const bool most = ops[i / 3] == RG_GROUP_MAX;
    rg_group_call call = {
      .kind = RG_GROUP_ALL_REDUCE, .op = ops[i / 3], .dtype = RG_F32, .count = 4, .unit = 1
    };
    float x[3][4];
    uint8_t flags[3][3];

    for (int32_t r = 0; r < 3; r++) {
      const bool odd = r == i % 3; /* one rank has another number than the two */

      x[r][0] = odd ? NAN : (float)r;
      x[r][1] = odd ? -INFINITY : -2;
      x[r][2] = odd == most ? 0.0F : -0.0F;
      x[r][3] = odd ? INFINITY : 2;
      call.in = call.out = x[r];
      is_status(rg_group_start(groups[r], &call, &tickets[r]), RG_OK, "the largest or smallest");
    }
    wait_all(groups, 3, tickets);
    ok(isnan(x[0][0]) && isnan(x[2][0]), "nan where one is nan");
    ok(x[1][1] == (most ? -2 : -INFINITY), "-inf is the smallest");
    ok(x[1][2] == 0 && !signbit(x[1][2]) == most, "-0 is smaller than 0");
    ok(x[1][3] == (most ? INFINITY : 2), "inf is the largest");
    for (int32_t r = 0; r < 3; r++) {
      flags[r][0] = r == i % 3;
      flags[r][1] = r != i % 3;
      flags[r][2] = 1;
      call.in = call.out = flags[r];
      call.dtype = RG_BOOL;
      call.count = 3;
      is_status(rg_group_start(groups[r], &call, &tickets[r]), RG_OK, "of true and false");
    }
    wait_all(groups, 3, tickets);
    ok(flags[2][0] == most && flags[2][1] == most && flags[2][2] == 1, "any of them, or all");
    call.op = i % 2 == 0 ? RG_GROUP_PROD : RG_GROUP_SUM;
    is_status(rg_group_start(groups[0], &call, &tickets[0]), RG_EDTYPE, "neither sum nor product");
    call.op = i % 2 == 0 ? RG_GROUP_WEIGHTED : RG_GROUP_MEAN;
    call.dtype = RG_I32;
    is_status(rg_group_start(groups[0], &call, &tickets[0]), RG_EDTYPE, "nor means of whole ones");
  }
  close_all(&all, groups);
}

static void test_times(void)
{
  net all;
  rg_group *groups[MOST];
  int64_t tickets[2];
  int64_t times[2][RG_GROUP_TIMES] = { { 0 } };
  rg_group_call call = { .kind = RG_GROUP_BARRIER, .unit = 1 };

  open_all(&all, 2, groups);
  for (int32_t r = 0; r < 2; r++) {
    call.times = times[r];
    is_status(rg_group_start(groups[r], &call, &tickets[r]), RG_OK, "timed");
  }
  wait_all(groups, 2, tickets);
  for (int32_t r = 0; r < 2; r++) {
    ok(times[r][1] >= times[1 - r][0] && times[r][2] >= times[r][1], "all have come, and it ends");
  }
  close_all(&all, groups);
}

/* -- What goes wrong --------------------------------------------------------------------------- */

/* A rank waits for another: it sleeps where its process computes, more and more, and yields where
** that waits for it. */
static void test_rests(void)
{
  net all;
  rg_group *groups[2];
  int64_t tickets[2];
  rg_group_call call = { .kind = RG_GROUP_BARRIER, .dtype = RG_F32, .unit = 1 };

  open_all(&all, 2, groups);
  int32_t before = atomic_load(&yields);
  int32_t looked = atomic_load(&looks);
  int64_t began = rg_clock_ns();
  if (rg_group_start(groups[0], &call, &tickets[0]) != RG_OK) tap_bail("no call");
  usleep(60000);
  looked = atomic_load(&looks) - looked;
  ok(looked > 1 && looked < 100 + (rg_clock_ns() - began) / 1000000, "it looks rarely");
  is_int(atomic_load(&yields) - before, 0, "and does not yield to whom computes");
  bool yielded = false;
  for (int32_t i = 0; i < 100 && !yielded; i++) {
    if (rg_group_start(groups[1], &call, &tickets[1]) != RG_OK) tap_bail("no call");
    wait_all(groups, 2, tickets);
    before = atomic_load(&yields);
    call.blocks = 1;
    if (rg_group_start(groups[0], &call, &tickets[0]) != RG_OK) tap_bail("no call");
    usleep(2000);
    yielded = atomic_load(&yields) > before;
  }
  ok(yielded, "it yields where whoever started it waits");
  if (rg_group_start(groups[1], &call, &tickets[1]) != RG_OK) tap_bail("no call");
  wait_all(groups, 2, tickets);
  close_all(&all, groups);
}

static void test_different(void)
{
  net all;
  rg_group *groups[MOST];
  int64_t tickets[2];
  float x[2][4] = { { 0 } };
  rg_group_call call = { .kind = RG_GROUP_ALL_REDUCE, .dtype = RG_F32, .count = 3, .unit = 1 };

  open_all(&all, 2, groups);
  for (int32_t r = 0; r < 2; r++) {
    is_status(rg_group_set_timeout(groups[r], 5), RG_OK, "a timeout");
  }
  call.in = call.out = x[0];
  is_status(rg_group_start(groups[0], &call, &tickets[0]), RG_OK, "one rank has 3");
  call.in = call.out = x[1];
  call.count = 4;
  is_status(rg_group_start(groups[1], &call, &tickets[1]), RG_OK, "the other 4");
  is_status(rg_group_wait(groups[0], tickets[0]), RG_ENET, "which is refused");
  ok(strstr(rg_error_message(), "all_reduce, sum of 4 f32 on rank 1 and all_reduce, sum of 3 f32 "
                                "here") != NULL,
     "with what each does");
  is_status(rg_group_wait(groups[1], tickets[1]), RG_ENET, "on both");
  is_status(rg_group_start(groups[0], &call, &tickets[0]), RG_ENET, "and the group is of no use");
  close_all(&all, groups);
  is_int(all.ended, 0, "nor does it wait for the others at its end");
}

/* Each field in which calls may differ, alone. */
static void test_each_difference(void)
{
  const rg_group_call like = {
    .kind = RG_GROUP_REDUCE_SCATTER, .dtype = RG_I32, .count = 12, .unit = 2
  };
  rg_group_call others[6] = { like, like, like, like, like, like };

  others[0].kind = RG_GROUP_ALL_REDUCE;
  others[1].op = RG_GROUP_MAX;
  others[2].dtype = RG_F32;
  others[3].count = 14;
  others[4].unit = 3;
  others[5].root = 1;
  for (int32_t i = 0; i < 6; i++) {
    net all;
    rg_group *groups[MOST];
    int64_t tickets[2];

    open_all(&all, 2, groups);
    for (int32_t r = 0; r < 2; r++) {
      rg_group_call call = r == 0 ? like : others[i];

      call.in = at[r].in;
      call.out = at[r].out;
      if (rg_group_set_timeout(groups[r], 2) != RG_OK ||
          rg_group_start(groups[r], &call, &tickets[r]) != RG_OK) {
        tap_bail("no call");
      }
    }
    for (int32_t r = 0; r < 2; r++) {
      is_status(rg_group_wait(groups[r], tickets[r]), RG_ENET, "what differs is refused");
      ok(strstr(rg_error_message(), "dist: collective 1 is ") != NULL, "and not waited for");
    }
    close_all(&all, groups);
  }
}

static void test_missing(void)
{
  net all;
  rg_group *groups[MOST];
  int64_t tickets[4];
  rg_group_call call = { .kind = RG_GROUP_BARRIER, .unit = 1 };

  open_all(&all, 4, groups);
  for (int32_t r = 0; r < 4; r++) {
    is_status(rg_group_set_timeout(groups[r], 0.2), RG_OK, "a timeout");
  }
  start_all(groups, 4, &call, tickets);
  wait_all(groups, 4, tickets);
  for (int32_t r = 0; r < 4; r += 3) {
    is_status(rg_group_start(groups[r], &call, &tickets[r]), RG_OK, "two of four come");
  }
  is_status(rg_group_wait(groups[3], tickets[3]), RG_ELATE, "and do not wait for ever");
  ok(strstr(rg_error_message(), "ranks 1 and 2 have not come to collective 2 (barrier) within 0.2 "
                                "s, and had come to all before") != NULL,
     "but say who is missing, and since when");
  is_status(rg_group_wait(groups[0], tickets[0]), RG_ELATE, "each of them");
  close_all(&all, groups);
}

static void test_interrupt(void)
{
  net all;
  rg_group *groups[MOST];
  int64_t ticket;
  rg_group_call call = { .kind = RG_GROUP_BARRIER, .unit = 1 };

  open_all(&all, 2, groups);
  is_status(rg_group_start(groups[0], &call, &ticket), RG_OK, "one waits");
  rg_interrupt_set();
  is_status(rg_group_wait(groups[0], ticket), RG_EINTR, "until Ctrl-C");
  rg_interrupt_clear();
  close_all(&all, groups);
}

static void test_refused(void)
{
  rg_group *alone;
  int64_t ticket;
  float x[4] = { 1, 2, 3, 4 };
  const rg_group_call good = {
    .kind = RG_GROUP_ALL_REDUCE, .dtype = RG_F32, .count = 4, .unit = 1, .in = x, .out = x
  };
  rg_group_call call = good;

  if (rg_group_new(NULL, NULL, 0, &alone) != RG_OK) tap_bail("no group");
  is_int(rg_group_size(alone), 1, "a process without others");
  is_int(rg_group_rank(alone), 0, "is rank 0");
  is_status(rg_group_start(alone, &call, &ticket), RG_OK, "and all works");
  is_status(rg_group_wait(alone, ticket), RG_OK, "at once");
  close_to(x[3], 4, 0, "and changes nothing");
#define REFUSED(field, value, code, what) \
  call = good;                            \
  call.field = value;                     \
  is_status(rg_group_start(alone, &call, &ticket), code, what)
  REFUSED(kind, 9, RG_EARG, "another kind");
  REFUSED(op, -1, RG_EARG, "another operation");
  REFUSED(dtype, 99, RG_EARG, "another type");
  REFUSED(dtype, RG_F8E4M3, RG_EDTYPE, "a type for storing");
  REFUSED(dtype, RG_BOOL, RG_EDTYPE, "a sum of what is true or false");
  REFUSED(count, -1, RG_EARG, "a negative count");
  REFUSED(unit, 3, RG_EARG, "a unit that divides nothing");
  REFUSED(weight, NAN, RG_EARG, "a weight that is none");
  REFUSED(root, 1, RG_EARG, "a rank that is not there");
  REFUSED(in, NULL, RG_EARG, "no memory");
  is_status(rg_group_set_timeout(alone, 0), RG_EARG, "no time");
  rg_group_release(alone);
  rg_group_release(NULL);
}

static void test_parts(void)
{
  int64_t first;
  int64_t part;
  int64_t next = 0;
  char x[17] = "sixteen letters.";

  for (int32_t r = 0; r < 4; r++) {
    rg_group_part(10, r, 4, &first, &part);
    is_int(first, next, "parts follow each other");
    is_int(part, r < 2 ? 3 : 2, "and differ by one");
    next += part;
  }
  int64_t before = rg_group_digest(x, 16);
  is_int(rg_group_digest(x, 16), before, "a digest is one of the bytes");
  x[7] ^= 64;
  ok(rg_group_digest(x, 16) != before, "and another of others");
  ok(rg_group_digest(x, 15) != rg_group_digest(x, 16), "and lengths");
}

int main(void)
{
  test_parts();
  test_refused();
  test_results();
  test_order();
  test_picks();
  test_times();
  test_rests();
  test_different();
  test_each_difference();
  test_missing();
  test_interrupt();
  return done();
}
