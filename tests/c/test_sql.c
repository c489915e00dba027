/* SPDX-License-Identifier: MIT */
/*
** Rows of a question, by functions that play SQLite: how many are fetched, what is given back, and
** what is closed, by whom.
*/
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "tap.h"

enum { ROW = 100, DONE = 101, NOMEM = 7, INTERRUPT = 9 };

static struct {
  int32_t rows; /* that there are */
  int32_t at;   /* steps so far */
  int32_t columns;
  int32_t refused; /* which copy of a value finds no memory, from 1 */
  int32_t copies;
  int32_t freed;
  int32_t prepared; /* statements that are not finalized */
  int32_t finalized;
  _Atomic int32_t closed;
  int32_t every;
  bool set_inside;    /* Ctrl-C comes in the second step */
  _Atomic bool hangs; /* a step does not come back */
  int32_t (*handler)(void *);
  void *argument;
} db;

static int64_t cell[64]; /* what a value is: 100 * row + column, somewhere here */

static int32_t step(void *statement)
{
  (void)statement;
  if (db.handler == NULL || db.every != 50000) {
    return 1; /* nobody could stop it */
  }
  while (atomic_load(&db.hangs)) {
    usleep(1000);
  }
  db.at++;
  if (db.set_inside && db.at == 2) {
    rg_interrupt_set();
    if (db.handler(db.argument) == 0) {
      return 1;
    }
  }
  return db.at > db.rows ? DONE : ROW;
}

static int32_t column_count(void *statement)
{
  (void)statement;
  return db.columns;
}

static void *column_value(void *statement, int32_t column)
{
  static int64_t value;

  (void)statement;
  value = 100 * (db.at - 1) + column;
  return &value;
}

static void *value_dup(const void *value)
{
  if (db.copies + 1 == db.refused) {
    db.refused = 0;
    return NULL;
  }
  cell[db.copies] = *(const int64_t *)value;
  return &cell[db.copies++];
}

static void value_free(void *value)
{
  if (value != NULL) {
    db.freed++;
  }
}

static void progress(void *unused, int32_t every, int32_t (*handler)(void *), void *argument)
{
  (void)unused;
  db.every = every;
  db.handler = handler;
  db.argument = argument;
}

static int32_t finalize(void *statement)
{
  (void)statement;
  db.prepared--;
  db.finalized++;
  return 0;
}

static void *next_statement(void *unused, void *statement)
{
  (void)unused;
  return statement == NULL && db.prepared > 0 ? &db : NULL;
}

static int32_t close_db(void *unused)
{
  (void)unused;
  atomic_fetch_add(&db.closed, 1);
  return 0;
}

static const rg_sqlite sqlite = { step,     column_count, column_value,   value_dup, value_free,
                                  progress, finalize,     next_statement, close_db };

static void begin(int32_t rows, int32_t columns)
{
  memset(&db, 0, sizeof(db));
  db.rows = rows;
  db.columns = columns;
  db.prepared = 3;
}

/* -- Rows ------------------------------------------------------------------------------------- */

static void fetches(int32_t there, int32_t columns, int64_t most, int64_t count, int32_t code,
                    const char *what)
{
  rg_sql_rows *rows = NULL;
  bool right = true;

  begin(there, columns);
  is_status(rg_sql_fetch(&sqlite, &db, &db, most, &rows), RG_OK, what);
  if (rows == NULL) {
    return;
  }
  is_int(rows->count, count, "so many rows");
  is_int(rows->columns, columns, "of so many columns");
  is_int(rows->code, code, "and whether there are more");
  for (int64_t i = 0; i < count * columns; i++) {
    right = right && *(int64_t *)rows->value[i] == 100 * (i / columns) + i % columns;
  }
  ok(right, "each value where it belongs");
  is_int(db.copies, count * columns, "is copied once");
  ok(db.handler == NULL && db.every == 0, "nobody looks any more");
  is_int(db.closed + db.finalized, 0, "the question stays open");
  rg_sql_rows_release(rows);
  is_int(db.freed, count * columns, "each copy is given back, once");
}

static void test_rows(void)
{
  fetches(3, 2, 10, 3, DONE, "all rows");
  fetches(3, 2, 3, 3, ROW, "as many as there are: nobody knows that these are all");
  fetches(5, 1, 2, 2, ROW, "some of them");
  fetches(5, 3, 1, 1, ROW, "one of them");
  fetches(0, 2, 4, 0, DONE, "none of none");
  fetches(4, 2, 0, 0, ROW, "none of some");
  rg_sql_rows_release(NULL);
}

static void test_no_memory(void)
{
  rg_sql_rows *rows = NULL;

  for (int64_t n = 1; n <= 3; n++) {
    begin(2, 2);
    rg_alloc_fail_at(n);
    is_status(rg_sql_fetch(&sqlite, &db, &db, 4, &rows), RG_ENOMEM, "no memory for the rows");
    rg_alloc_fail_at(0);
    is_int(db.closed, 1, "closes the database");
    is_int(db.finalized, 3, "and all questions");
    is_int(db.at, 0, "of which none was asked");
  }
  for (int32_t n = 1; n <= 2; n++) {
    begin(2, 2);
    db.refused = 2 + n; /* in the second row */
    is_status(rg_sql_fetch(&sqlite, &db, &db, 4, &rows), RG_OK, "no memory for a value");
    is_int(rows->code, NOMEM, "is told");
    is_int(rows->count, 2, "with its row");
    is_int(db.at, 2, "which is the last");
    rg_sql_rows_release(rows);
    is_int(db.freed, 3, "the others are given back");
  }
}

/* -- Ctrl-C ----------------------------------------------------------------------------------- */

static void test_interrupt(void)
{
  rg_sql_rows *rows = NULL;

  begin(9, 1);
  db.set_inside = true;
  is_status(rg_sql_fetch(&sqlite, &db, &db, 9, &rows), RG_OK, "Ctrl-C between two steps");
  rg_interrupt_clear();
  is_int(rows->code, INTERRUPT, "is told");
  is_int(rows->count, 2, "behind the rows there were");
  rg_sql_rows_release(rows);
  is_int(db.freed, 2, "which are given back");
}

static void *frees(void *unused)
{
  (void)unused;
  usleep(300000);
  atomic_store(&db.hangs, false);
  return NULL;
}

/* A function that does not come back within a tenth of a second. */
static void test_left(void)
{
  rg_sql_rows *rows = NULL;
  pthread_t thread;

  begin(9, 1);
  atomic_store(&db.hangs, true);
  rg_interrupt_set();
  is_status(rg_sql_fetch(&sqlite, &db, &db, 9, &rows), RG_EINTR, "Ctrl-C in a long step");
  ok(rows == NULL, "gives no rows");
  ok(rg_aside_left(), "its thread is left");
  is_int(db.closed, 0, "nothing is closed under it");
  rg_interrupt_clear(); /* withdrawn: the thread has to stop all the same */
  if (pthread_create(&thread, NULL, frees, NULL) != 0) {
    tap_bail("no thread");
  }
  is_status(rg_aside_settle(), RG_OK, "it is waited for");
  (void)pthread_join(thread, NULL);
  ok(!rg_aside_left(), "and has ended");
  is_int(db.at, 1, "behind the step it was in");
  is_int(db.closed, 1, "the database is closed");
  is_int(db.finalized, 3, "with all questions");
  is_int(db.freed, db.copies, "and what it had fetched is given back");
}

/* -- A library that is closed ----------------------------------------------------------------- */

typedef struct real {
  rg_sqlite sqlite;
  int32_t (*open)(const char *path, void **db);
  int32_t (*prepare)(void *db, const char *text, int32_t bytes, void **statement, const char **end);
  void (*interrupt)(void *db);
} real;

static void no_progress(void *unused, int32_t every, int32_t (*handler)(void *), void *argument)
{
  (void)unused, (void)every, (void)handler, (void)argument;
}

/* Under a step of SQLite that nobody can stop, the library stays, whoever closes it. */
static void test_library_stays(void)
{
  static const char name[] = "libsqlite3.so.0"; /* nothing else here opens it */
  static const char *const names[] = { "step",      "column_count", "column_value",
                                       "value_dup", "value_free",   "progress_handler",
                                       "finalize",  "next_stmt",    "close",
                                       "open",      "prepare_v2",   "interrupt" };
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  void *database = NULL;
  void *statement = NULL;
  void *again;
  rg_sql_rows *rows = NULL;
  real r;

  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    char whole[64];

    snprintf(whole, sizeof(whole), "sqlite3_%s", names[i]);
    void *found = library != NULL ? dlsym(library, whole) : NULL;

    if (found == NULL) {
      tap_bail("no SQLite");
    }
    memcpy((char *)&r + i * sizeof(found), &found, sizeof(found));
  }
  r.sqlite.progress = no_progress;
  is_int(r.open(":memory:", &database), 0, "a database");
  is_int(r.prepare(database,
                   "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
                   "SELECT max(x) FROM c",
                   -1, &statement, NULL),
         0, "a question without an end");
  rg_interrupt_set();
  is_status(rg_sql_fetch(&r.sqlite, database, statement, 1, &rows), RG_EINTR, "is left");
  rg_interrupt_clear();
  (void)dlclose(library);
  again = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
  ok(again != NULL, "its library is not closed under it");
  r.interrupt(database);
  is_status(rg_aside_settle(), RG_OK, "and it ends");
}

int main(void)
{
  test_rows();
  test_no_memory();
  test_interrupt();
  test_left();
  test_library_stays();
  return done();
}
