-- SPDX-License-Identifier: MIT
--- The rows of a question that somebody typed, from a thread: SQLite looks at Ctrl-C between two
--- steps of its machine, and a function is one step however long its texts are. A thread that does
--- not come back is left, and the connection with it (core/base/sql_rows.c).

local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local ffi = require 'ffi'

ffi.cdef [[
typedef struct sqlite3_value sqlite3_value;
sqlite3_value *sqlite3_column_value(void *, int);
sqlite3_value *sqlite3_value_dup(const sqlite3_value *);
void sqlite3_value_free(sqlite3_value *);
int sqlite3_value_type(sqlite3_value *);
int64_t sqlite3_value_int64(sqlite3_value *);
double sqlite3_value_double(sqlite3_value *);
const void *sqlite3_value_blob(sqlite3_value *);
int sqlite3_value_bytes(sqlite3_value *);
void *sqlite3_next_stmt(void *, void *);
]]

local M = {}

local ROW = 100
local INTEGER, FLOAT, TEXT, BLOB = 1, 2, 3, 4
local EXACT = 2 ^ 53

local functions -- of SQLite, for the thread

local function calls(lib)
  if functions then return functions end
  functions = ffi.new 'rg_sqlite'
  for field, name in pairs { step = 'step', column_count = 'column_count',
      column_value = 'column_value', value_dup = 'value_dup', value_free = 'value_free',
      progress = 'progress_handler', finalize = 'finalize', next_statement = 'next_stmt',
      close = 'close_v2' } do
    functions[field] = ffi.cast('void *', lib['sqlite3_' .. name])
  end
  return functions
end

-- Whole numbers that a Lua number cannot be are int64_t of LuaJIT; nothing that ridge itself stores
-- is one.
local function value_of(lib, value)
  local kind = lib.sqlite3_value_type(value)
  if kind == INTEGER then
    local whole = lib.sqlite3_value_int64(value)
    local number = tonumber(whole)
    if not (math.abs(number) <= EXACT and whole == number) then return whole end
    return number
  end
  if kind == FLOAT then return lib.sqlite3_value_double(value) end
  if kind == TEXT or kind == BLOB then
    local bytes = lib.sqlite3_value_blob(value)
    return bytes == nil and '' or ffi.string(bytes, lib.sqlite3_value_bytes(value))
  end
  return nil
end

-- The connection and what was prepared in it are the thread's: nothing here touches them again.
local function abandon(self, statement)
  ffi.gc(statement.handle, nil)
  for sql, each in pairs(self.statements) do
    ffi.gc(each.handle, nil)
    self.statements[sql] = nil
  end
  self.n_statements = 0
  ffi.gc(self.handle, nil)
  self.handle = nil
end

local AT_ONCE = 2 ^ 16 -- values that come from the thread together

--- Rows up to the end, or to what failed.
---@param lib cdata SQLite
---@param self table the connection; closed where the thread was left
---@param statement table prepared, its values bound
---@param columns_of fun(statement: table): string[]
---@return table rows each keyed by column
---@return string[] columns
---@return integer code what SQLite's last step said
-- Raises EINTR where Ctrl-C was pressed and the thread did not come back.
function M.rows(lib, self, statement, columns_of)
  local rows, columns, slot = {}, nil, ffi.new 'rg_sql_rows *[1]'
  local most = math.ceil(AT_ONCE / math.max(1, lib.sqlite3_column_count(statement.handle)))
  repeat
    local status = C.rg_sql_fetch(calls(lib), self.handle, statement.handle, most, slot)
    if status ~= 0 then
      abandon(self, statement)
      call.fail(status)
    end
    local batch = ffi.gc(slot[0], C.rg_sql_rows_release)
    columns = columns or columns_of(statement)
    for r = 0, tonumber(batch.count) - 1 do
      local row = {}
      for i = 1, math.min(#columns, batch.columns) do
        row[columns[i]] = value_of(lib, ffi.cast('sqlite3_value *',
          batch.value[r * batch.columns + i - 1]))
      end
      rows[#rows + 1] = row
    end
    local code = batch.code
    ffi.gc(batch, nil)
    C.rg_sql_rows_release(batch)
    if code ~= ROW then return rows, columns, code end
  until false
end

return M
