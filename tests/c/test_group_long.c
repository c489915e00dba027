/* SPDX-License-Identifier: MIT */
/*
** Groups of ranks whose messages are long, or are never taken, and what is said of those.
*/
#include "tap.h"

#include <unistd.h>

#include "groups.h"

enum {
  MESSAGE = 1 << 24
}; /* the longest: a longer one goes in pieces, each of which is progress */

static void fill(uint8_t *to, int64_t n, int32_t rank)
{
  for (int64_t i = 0; i < n; i++) {
    to[i] = (uint8_t)(i * 7 + (i >> 13) + 31 * rank);
  }
}

static void start_and_wait(rg_group **groups, rg_group_call *calls)
{
  int64_t tickets[2];

  for (int32_t r = 0; r < 2; r++) {
    if (rg_group_start(groups[r], &calls[r], &tickets[r]) != RG_OK) tap_bail("no call");
  }
  for (int32_t r = 0; r < 2; r++) {
    is_status(rg_group_wait(groups[r], tickets[r]), RG_OK, "a call ends");
  }
}

/* In more than one piece: what each has to all, what one has to all, one more than fits. */
static void test_pieces(void)
{
  const int64_t n = MESSAGE + 3;
  net all;
  rg_group *groups[MOST];
  uint8_t *in[2];
  uint8_t *out[2];
  rg_group_call calls[2];

  open_all(&all, 2, groups);
  atomic_store(&longest, 0);
  for (int32_t r = 0; r < 2; r++) {
    in[r] = malloc((size_t)n * 2);
    out[r] = malloc((size_t)n * 2);
    if (in[r] == NULL || out[r] == NULL) tap_bail("no memory");
    fill(in[r], n * 2, r);
    memset(out[r], 0, (size_t)n * 2);
    calls[r] = (rg_group_call){
      .kind = RG_GROUP_ALL_GATHER, .dtype = RG_U8, .count = n, .unit = 1, .in = in[r], .out = out[r]
    };
  }
  start_and_wait(groups, calls);
  for (int32_t r = 0; r < 2; r++) {
    ok(memcmp(out[r], in[0], (size_t)n) == 0 && memcmp(out[r] + n, in[1], (size_t)n) == 0,
       "all_gather of more than a message has all of it");
    memset(out[r], 0, (size_t)n * 2);
    calls[r].kind = RG_GROUP_BROADCAST;
    calls[r].count = n * 2; /* the root sends a part of more than a message, and receives none */
    calls[r].root = 1;
  }
  start_and_wait(groups, calls);
  for (int32_t r = 0; r < 2; r++) {
    ok(memcmp(out[r], in[1], (size_t)n * 2) == 0, "so has a broadcast");
    calls[r].kind = RG_GROUP_ALL_REDUCE;
    calls[r].op = RG_GROUP_MAX;
  }
  start_and_wait(groups, calls);
  int64_t wrong = 0;
  for (int64_t i = 0; i < n * 2; i++) {
    uint8_t wanted = in[0][i] > in[1][i] ? in[0][i] : in[1][i];

    wrong += out[0][i] != wanted || out[1][i] != wanted;
  }
  is_int(wrong, 0, "and an all_reduce");
  is_int(atomic_load(&longest), MESSAGE, "and no message is longer than that");
  close_all(&all, groups);
  for (int32_t r = 0; r < 2; r++) {
    free(in[r]);
    free(out[r]);
  }
}

/* Start a call of one or two ranks that comes to nothing, and read what rank 0 says of it. */
static void said(rg_group **groups, const rg_group_call *call, int32_t ranks, const char *wanted,
                 const char *what)
{
  int64_t tickets[2];

  for (int32_t r = 0; r < ranks; r++) {
    if (rg_group_set_timeout(groups[r], 0.1) != RG_OK) tap_bail("no timeout");
    if (rg_group_start(groups[r], &call[r], &tickets[r]) != RG_OK) tap_bail("no call");
  }
  for (int32_t r = ranks - 1; r >= 0; r--) {
    ok(rg_group_wait(groups[r], tickets[r]) != RG_OK, "it fails");
  }
  ok(strstr(rg_error_message(), wanted) != NULL, what);
}

static void test_said(void)
{
  net all;
  rg_group *groups[MOST];
  uint8_t x[2][4] = { { 0 } };
  rg_group_call call[2];

  for (int32_t r = 0; r < 2; r++) {
    call[r] = (rg_group_call){ .kind = RG_GROUP_BROADCAST,
                               .dtype = RG_U8,
                               .count = 4,
                               .unit = 1,
                               .root = r,
                               .in = x[r],
                               .out = x[r] };
  }
  open_all(&all, 2, groups);
  said(groups, call, 2, "collective 1 is from rank 1 on rank 1 and from rank 0 here",
       "two roots are told apart");
  close_all(&all, groups);

  open_all(&all, 2, groups);
  said(groups, call, 1, "rank 1 has not come to collective 1 (broadcast of 4 u8) within 0.1 s; the",
       "no step of training is named before there is one");
  close_all(&all, groups);

  open_all(&all, 2, groups);
  rg_group_set_step(groups[0], 1);
  said(groups, call, 1, "(broadcast of 4 u8) in step 1 within 0.1 s", "the first is");
  close_all(&all, groups);

  /* all have told what they do, but what this rank sends is not taken */
  atomic_store(&stuck, true);
  open_all(&all, 2, groups);
  call[1].root = 0;
  said(groups, call, 2, "rank 1 has not come", "who takes no message is named");
  atomic_store(&stuck, false);
  close_all(&all, groups);
}

/* What nobody has started is not waited for. */
static void test_tickets(void)
{
  net all;
  rg_group *groups[MOST];

  open_all(&all, 1, groups);
  is_status(rg_group_wait(groups[0], 1), RG_OK, "a ticket of no call is no wait");
  close_all(&all, groups);
}

int main(void)
{
  test_pieces();
  test_said();
  test_tickets();
  return done();
}
