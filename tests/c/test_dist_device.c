/* SPDX-License-Identifier: MIT */
/*
** Calls on devices (dist/device.c): collectives of ranks that have one each, in what order, who is
** told of what fails, and what is freed.
*/
#include "comms.h"

static void collectives(void)
{
  bool good = true;

  begin(RANKS, 10);
  is_status(run(RG_GROUP_ALL_REDUCE, RG_GROUP_SUM), RG_OK, "a sum");
  for (int32_t i = 0; i < RANKS * 12; i++)
    good = good && out[i / 12][i % 12] == (float)(300 + 3 * (i % 12 + 1));
  ok(good, "is one on all");
  is_status(run(RG_GROUP_ALL_REDUCE, RG_GROUP_MAX), RG_OK, "the largest");
  close_to(out[0][3], 204, 0, "is that of the last rank");
  is_status(run(RG_GROUP_ALL_REDUCE, RG_GROUP_MIN), RG_OK, "the smallest");
  close_to(out[2][3], 4, 0, "is that of the first rank");
  is_status(run(RG_GROUP_ALL_REDUCE, RG_GROUP_PROD), RG_OK, "a product");
  close_to(out[0][1], 2 * 102 * 202, 0, "is that of all");
  is_status(run(RG_GROUP_ALL_REDUCE, RG_GROUP_MEAN), RG_OK, "a mean");
  close_to(out[2][3], 104, 0, "is that of all");
  is_status(run(RG_GROUP_BROADCAST, 0), RG_OK, "a broadcast");
  close_to(out[2][4], 5, 0, "brings what rank 0 has");
  is_status(run(RG_GROUP_ALL_GATHER, 0), RG_OK, "an all-gather");
  close_to(out[1][24 + 5], 206, 0, "brings what all have");
  is_status(run(RG_GROUP_REDUCE_SCATTER, RG_GROUP_SUM), RG_OK, "a reduce-scatter");
  close_to(out[1][0], 300 + 3 * 5, 0, "brings each its part");
  is_int(n_done(), 8, "these were calls of the library");
  is_int(lib.n_ids, 1, "of one communicator");
  end();
  is_int(lib.n_left, RANKS, "which all left");
  is_int(lib.n_released, RANKS, "and freed");
  is_int(lib.n_given_up, 0, "and nobody gave up");
}

/* Weighted means are asked for as the library has them. */
static void weighted(void)
{
  static const double WEIGHTS[4][RANKS] = { { 2, 2, 2 }, { 1, 3, 4 }, { 0, 0, 0 }, { 0, 5, 0 } };
  static const int32_t OPS[] = { RG_COMM_MEAN, RG_COMM_SUM, RG_COMM_SUM, RG_COMM_SUM };
  static const float WANTED[] = { 101, (1 + 3 * 101 + 4 * 201) / 8.0F, 0, 101 };

  begin(RANKS, 10);
  for (int32_t k = 0; k < 4; k++) {
    rg_group_call calls[RANKS];

    for (int32_t r = 0; r < RANKS; r++) {
      calls[r] = call_of(r, RG_GROUP_ALL_REDUCE, RG_GROUP_WEIGHTED);
      calls[r].weight = WEIGHTS[k][r];
    }
    is_status(run_all(calls), RG_OK, "a weighted mean");
    is_int(lib.calls[k][1].op, OPS[k], "is asked for as a mean where all count alike, else a sum");
    close_to(lib.calls[k][2].share, k == 1 ? 0.5 : k == 0, 0, "of shares");
    close_to(out[1][0], WANTED[k], 1e-5, "and is one");
  }
  end();
}

/* Marks are made once and used again; one wait is for all calls before it. */
static void order(void)
{
  int64_t tickets[5][RANKS];
  int32_t made;

  begin(2, 10);
  let(SLOW, 2);
  for (int i = 0; i < 100; i++) {
    if (run(RG_GROUP_ALL_REDUCE, RG_GROUP_SUM) != RG_OK) tap_bail(rg_error_message());
  }
  ok(true, "a hundred calls, of which the library takes each after some time");
  made = atomic_load(&marks_new);
  ok(atomic_load(&marks) <= 2 * 3 * 20, "use the marks of those that are done");
  atomic_store(&follows, 0);
  for (int32_t k = 0; k < 5; k++) {
    for (int32_t r = 0; r < 2; r++) {
      rg_group_call call = call_of(r, RG_GROUP_ALL_REDUCE, RG_GROUP_SUM);
      is_status(rg_group_start(group[r], &call, &tickets[k][r]), RG_OK, "a call is started");
    }
  }
  is_status(rg_group_wait(group[0], tickets[4][0]), RG_OK, "who waits for the last of five");
  is_int(atomic_load(&follows), 1, "has its stream ordered once");
  is_int(atomic_load(&followed_at), 105, "behind that");
  is_status(rg_group_wait(group[0], tickets[2][0]), RG_OK, "and who waits for one before");
  is_int(atomic_load(&follows), 1, "is there already");
  let(FOLLOW, 2);
  is_status(rg_group_wait(group[1], tickets[4][1]), RG_EDEVICE, "a stream may fail at it");
  ok(atomic_load(&marks_new) >= made, "marks are counted");
  let_none();
  end();
}

static void nothing(void)
{
  rg_group_call calls[RANKS];

  begin(2, 10);
  for (int32_t r = 0; r < 2; r++) {
    calls[r] = call_of(r, RG_GROUP_ALL_REDUCE, RG_GROUP_SUM);
    calls[r].count = 0;
  }
  is_status(run_all(calls), RG_OK, "a call of no elements");
  is_status(run(RG_GROUP_BARRIER, 0), RG_OK, "and a barrier");
  is_int(n_done() + lib.n_all, 0, "are none of the library's");
  calls[0].count = 12;
  is_status(run_all(calls), RG_ENET, "ranks that start calls of other sizes are told");
  is_int(n_done() + lib.n_all, 0, "before the library is asked for anything");
  end();
}

static void reached(void)
{
  rg_group_call call;
  int64_t ticket;

  begin(2, 10);
  call = call_of(0, RG_GROUP_ALL_REDUCE, RG_GROUP_SUM);
  is_status(rg_group_reach(group[0], BARE), RG_ENOSUP, "a device without a library");
  says("nothing carries what is on", "says so");
  let(OPEN, -1);
  is_status(rg_group_reach(group[0], 1), RG_ENOSUP, "a library that is not there");
  let_none();
  is_status(rg_group_reach(group[0], 1), RG_OK, "does no harm to one that is");
  is_status(rg_group_reach(group[0], SPARE), RG_EDEVICE, "a rank has one device");
  says("a rank has one GPU", "which is told");
  call.device = SPARE;
  is_status(rg_group_start(group[0], &call, &ticket), RG_EDEVICE, "also where a call is started");
  let(MARK_NEW, 1);
  atomic_store(&marks_new, 0);
  is_status(rg_group_start(group[0],
                           &(rg_group_call){ .kind = RG_GROUP_ALL_REDUCE,
                                             .dtype = RG_F32,
                                             .count = 1,
                                             .unit = 1,
                                             .in = in,
                                             .out = out,
                                             .device = 1 },
                           &ticket),
            RG_EDEVICE, "a device without marks");
  is_int(atomic_load(&marks), 0, "keeps none of a call that is not started");
  let_none();
  let(MARK_SET, 1);
  call.device = 1;
  is_status(rg_group_start(group[0], &call, &ticket), RG_EDEVICE, "one that sets none");
  is_int(atomic_load(&marks), 3, "has them for the next call");
  let_none();
  is_status(run(RG_GROUP_ALL_REDUCE, RG_GROUP_SUM), RG_OK, "which is as any other");
  is_int(atomic_load(&marks), 6, "and takes them");
  end();
}

/* Why ranks cannot be one communicator is told to all. */
static void unjoined(void)
{
  static const struct {
    int32_t way, device;
    const char *text;
    rg_status status;
  } EACH[] = {
    { FACTS, 2, "rank 1 cannot exchange what is on its GPU: no facts", RG_ENET },
    { MAKE_ID, -1, "rank 0 cannot exchange what is on its GPU: no id", RG_ENET },
    { ONE_GPU, 3, "ranks 0 and 2 have their tensors on one GPU (GPU-1)", RG_EDEVICE },
  };
  char text[512];

  for (size_t i = 0; i < sizeof(EACH) / sizeof(*EACH); i++) {
    begin(RANKS, 10);
    let(EACH[i].way, EACH[i].device);
    is_status(run(RG_GROUP_ALL_REDUCE, RG_GROUP_SUM), EACH[i].status, "ranks that cannot join");
    for (int32_t r = 0; r < RANKS; r++) {
      snprintf(text, sizeof(text), "all are told why: %s", EACH[i].text);
      is_status(comes(r), EACH[i].status, "all fail");
      says(EACH[i].text, text);
    }
    is_int(lib.n_all, 0, "and none does anything of it");
    end();
  }
  begin(2, 10);
  atomic_store(&simulated, true);
  let(ONE_GPU, 2);
  is_status(run(RG_GROUP_ALL_REDUCE, RG_GROUP_SUM), RG_EDEVICE, "simulated ones of one machine");
  atomic_store(&simulated, false);
  end();
  begin(2, 0.1);
  let(JOIN, 2);
  is_status(run(RG_GROUP_ALL_REDUCE, RG_GROUP_SUM), RG_ENET, "one whose library does not join");
  says("it cannot join", "says why");
  end();
}

/* Calls that fail: what the library says, and behind it nothing is done any more. */
static void failing(void)
{
  static const struct {
    int32_t way;
    rg_status status;
    const char *text;
    bool told; /* who waits for the device is */
  } EACH[] = {
    { START, RG_ENET, "it starts nothing", true },
    { SETTLED, RG_ENET, "its network is gone", true },
    { NEVER, RG_ELATE,
      "all ranks have come to collective 2 (all_reduce, sum of 12 f32), and "
      "library has not begun it for 0.1 s: one has ended since",
      true },
    { SET, RG_EDEVICE, "no mark behind it", true },
    { PASSED, RG_EDEVICE, "it is lost", true },
    { HANGS, RG_ELATE,
      "all ranks have come to collective 2 (all_reduce, sum of 12 f32), and it "
      "has not ended within 0.1 s: one has ended since",
      true },
  };
  rg_group_call call;
  int64_t ticket;

  for (size_t i = 0; i < sizeof(EACH) / sizeof(*EACH); i++) {
    begin(2, 0.1);
    is_status(run(RG_GROUP_ALL_REDUCE, RG_GROUP_SUM), RG_OK, "a call");
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL); /* seen to be done */
    let(EACH[i].way, 2);
    (void)run(RG_GROUP_ALL_REDUCE, RG_GROUP_SUM);
    is_status(comes(1), EACH[i].status, "and one that fails");
    says(EACH[i].text, EACH[i].text);
    call = call_of(1, RG_GROUP_ALL_REDUCE, RG_GROUP_SUM);
    is_status(rg_group_start(group[1], &call, &ticket), EACH[i].status, "the next is refused");
    says(EACH[i].text, "for the same reason");
    pthread_mutex_lock(&lib.lock);
    ok(lib.n_given_up >= 1, "what is under way is given up");
    ok((strstr(lib.why, EACH[i].text) != NULL) == EACH[i].told, "and why is said to who waits");
    pthread_mutex_unlock(&lib.lock);
    end();
  }
}

/* The time in which the device has not come to a call is not that call's. */
static void early(void)
{
  begin(2, 0.05);
  let(BEGINS_LATE, 2);
  is_status(run(RG_GROUP_ALL_REDUCE, RG_GROUP_SUM), RG_OK, "a call that a device comes to late");
  nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
  is_status(rg_group_wait(group[1], 1), RG_OK, "is not late itself");
  let_none();
  is_status(run(RG_GROUP_ALL_REDUCE, RG_GROUP_SUM), RG_OK, "nor is the next");
  end();
  is_int(lib.n_given_up, 0, "so nobody gives up");
}

static void interrupted(void)
{
  rg_group_call call;
  int64_t ticket;
  rg_status status;

  begin(2, 10);
  is_status(run(RG_GROUP_ALL_REDUCE, RG_GROUP_SUM), RG_OK, "a call");
  let(NEVER, 2);
  for (int32_t r = 0; r < 2; r++) {
    call = call_of(r, RG_GROUP_ALL_REDUCE, RG_GROUP_SUM);
    is_status(rg_group_start(group[r], &call, &ticket), RG_OK, "one that is not taken");
  }
  rg_interrupt_set();
  status = rg_group_wait(group[1], ticket);
  is_status(status, RG_EINTR, "is left by Ctrl-C");
  rg_interrupt_clear();
  end();
}

/* At the end what is under way is waited for, as long as a call may take. */
static void ends(void)
{
  static const int32_t WAYS_OUT[] = { HANGS, LEAVE, NEVER };

  for (int i = 0; i < 3; i++) {
    begin(2, 0.1);
    if (WAYS_OUT[i] == HANGS) let(HANGS, 1);
    is_status(run(RG_GROUP_ALL_REDUCE, RG_GROUP_SUM), RG_OK, "a call");
    if (WAYS_OUT[i] != HANGS) nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    let(WAYS_OUT[i], 1);
    rg_group_release(group[0]);
    is_int(lib.n_given_up, 1, "a rank that cannot leave gives up");
    ok(strcmp(lib.why, "-") == 0, "and tells nobody: the process ends");
    is_int(lib.n_released, 1, "and frees what it has");
    rg_group_release(group[1]);
    is_int(lib.n_released, 2, "the other one leaves");
    is_int(all.ended, 2, "and both end");
    is_int(atomic_load(&marks), 0, "no mark is left");
    pthread_mutex_destroy(&all.lock);
  }
}

int main(void)
{
  register_devices();
  collectives();
  weighted();
  order();
  nothing();
  reached();
  unjoined();
  failing();
  early();
  interrupted();
  ends();
  begin(1, 1); /* frees what the last has joined */
  end();
  return done();
}
