/* SPDX-License-Identifier: MIT */
/*
** The rows of a question, fetched on a thread that the caller may leave: SQLite looks at a request
** to stop between two steps of its machine, and a function is one of them however long it takes
** (printf, instr, trim and LIKE of long texts take hours).
*/
#include <stdatomic.h>

#include "base/base.h"

enum { ANSWER_ROW = 100, ANSWER_NOMEM = 7, ANSWER_INTERRUPT = 9, LOOK_EVERY = 50000 };

/* Of the caller and of the thread, whoever goes last. */
typedef struct fetching {
  rg_sqlite sqlite;
  void *db;
  void *statement;
  rg_sql_rows *rows;
  int64_t most;
  _Atomic int32_t holders;
  _Atomic bool left; /* the caller is gone */
} fetching;

static void let_go(fetching *f)
{
  if (atomic_fetch_sub(&f->holders, 1) == 1) {
    rg_host_free(f);
  }
}

/* The progress handler: the request may be withdrawn before this thread has seen it. */
static int32_t stops(void *work)
{
  const fetching *f = work;

  return rg_interrupt_pending() || atomic_load(&f->left);
}

static void run(void *work)
{
  fetching *f = work;
  rg_sql_rows *rows = f->rows;

  f->sqlite.progress(f->db, LOOK_EVERY, stops, f);
  rows->code = ANSWER_ROW;
  while (rows->count < f->most && (rows->code = f->sqlite.step(f->statement)) == ANSWER_ROW) {
    void **row = rows->value + rows->count * rows->columns;

    for (int32_t i = 0; i < rows->columns; i++) {
      row[i] = f->sqlite.value_dup(f->sqlite.column_value(f->statement, i));
      rows->code = row[i] == NULL ? ANSWER_NOMEM : rows->code;
    }
    rows->count++;
    if (rows->code == ANSWER_ROW && stops(f)) {
      rows->code = ANSWER_INTERRUPT;
    }
    if (rows->code != ANSWER_ROW) {
      break;
    }
  }
  f->sqlite.progress(f->db, 0, NULL, NULL);
}

/* The connection goes, and all that was prepared in it. */
static void close_all(const rg_sqlite *sqlite, void *db)
{
  void *statement;

  while ((statement = sqlite->next_statement(db, NULL)) != NULL) {
    sqlite->finalize(statement);
  }
  sqlite->close(db);
}

/* Nobody waits for it any more. */
static void drop(void *work)
{
  fetching *f = work;

  close_all(&f->sqlite, f->db);
  rg_sql_rows_release(f->rows);
  let_go(f);
}

rg_status rg_sql_fetch(const rg_sqlite *sqlite, void *db, void *statement, int64_t most,
                       rg_sql_rows **out)
{
  const int32_t columns = sqlite->column_count(statement);
  fetching *f = rg_host_zeroed(sizeof(*f));
  rg_sql_rows *rows = rg_host_zeroed(sizeof(*rows));
  void **value = rg_host_zeroed((size_t)(most * columns + 1) * sizeof(*value));
  rg_status status;

  if (f == NULL || rows == NULL || value == NULL) {
    rg_host_free(f);
    rg_host_free(rows);
    rg_host_free(value);
    close_all(sqlite, db);
    return rg_fail(RG_ENOMEM, "no memory for the rows of a question");
  }
  *rows = (rg_sql_rows){ .value = value, .columns = columns, .release = sqlite->value_free };
  *f = (fetching){
    .sqlite = *sqlite, .db = db, .statement = statement, .rows = rows, .most = most, .holders = 2
  };
  status = rg_aside_at_once(run, drop, f);
  if (status == RG_OK) {
    *out = rows;
    let_go(f);
  } else {
    atomic_store(&f->left, true);
    rg_aside_stays((void (*)(void))sqlite->step);
  }
  let_go(f);
  return status;
}

void rg_sql_rows_release(rg_sql_rows *rows)
{
  if (rows == NULL) {
    return;
  }
  for (int64_t i = 0; i < rows->count * rows->columns; i++) {
    rows->release(rows->value[i]);
  }
  rg_host_free(rows->value);
  rg_host_free(rows);
}
