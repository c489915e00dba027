-- SPDX-License-Identifier: MIT
--- The rows of a query one by one, without a table each: what a million rows are read by.

local blame = require 'ridge.blame'
local ffi = require 'ffi'
local libraries = require 'ridge.ffi.library'
require 'ridge.store.sqlite' -- declares what is called here

local M = {}

local OK, ROW, DONE, INTERRUPTED = 0, 100, 101, 9
local NULL, FLOAT, INTEGER = 5, 2, 1
local NAN = 0 / 0

local Cursor = {}
Cursor.__index = Cursor

--- A column of the row that is at hand as a number; nan where it is none.
---@param i integer from 0 on
---@return number
function Cursor:number(i)
  local kind = self.lib.sqlite3_column_type(self.handle, i)
  if kind ~= FLOAT and kind ~= INTEGER then return NAN end
  local v = self.lib.sqlite3_column_double(self.handle, i)
  return v == v and v or NAN -- of all the bits that are no number, one
end

--- A column of the row that is at hand as text; nil where it is absent.
---@param i integer from 0 on
---@return string|nil
function Cursor:text(i)
  if self.lib.sqlite3_column_type(self.handle, i) == NULL then return nil end
  local bytes = self.lib.sqlite3_column_blob(self.handle, i)
  return bytes == nil and '' or ffi.string(bytes, self.lib.sqlite3_column_bytes(self.handle, i))
end

local function failed(db, lib, code, name)
  local said = ffi.string(lib.sqlite3_errmsg(db.handle))
  blame.raise(('%s: %s (in "%s")'):format(db.path, said, name),
    code % 256 == INTERRUPTED and 'EINTR' or 'EIO')
end

--- Call a function for each row of a query; Ctrl-C ends it.
---@param db table a connection of ridge.store.sqlite
---@param sql string one SELECT whose opening comment names it
---@param values table what its marks stand for: numbers or texts
---@param each fun(cursor: table) reads the row that is at hand
function M.each(db, sql, values, each)
  local lib = libraries.open('libsqlite3.so.0', 'sqlite3')
  local name = sql:match '^/%*%s*(.-)%s*%*/' or sql:sub(1, 60)
  db:stops(function()
    local slot = ffi.new 'sqlite3_stmt *[1]'
    local code = lib.sqlite3_prepare_v2(db.handle, sql, #sql, slot, nil)
    if code ~= OK then failed(db, lib, code, name) end
    local handle = ffi.gc(slot[0], lib.sqlite3_finalize)
    local cursor = setmetatable({ lib = lib, handle = handle }, Cursor)
    local ok, err = pcall(function()
      for i, v in ipairs(values) do
        if type(v) == 'number' then
          lib.sqlite3_bind_double(handle, i, v)
        else
          lib.sqlite3_bind_text(handle, i, v, #v, -1)
        end
      end
      repeat
        code = lib.sqlite3_step(handle)
        if code == ROW then each(cursor) end
      until code ~= ROW
      if code ~= DONE then failed(db, lib, code, name) end
    end)
    lib.sqlite3_finalize(ffi.gc(handle, nil))
    if not ok then error(err, 0) end
  end)
end

return M
