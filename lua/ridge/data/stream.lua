-- SPDX-License-Identifier: MIT
--- Rows that come one after the other, from a Lua iterator or a file that grows, as batches: no
--- more of them are in memory than a batch has.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local class = require('ridge.class').class
local csv = require 'ridge.data.csv'
local dtype = require 'ridge.tensor.dtype'
local make = require('ridge.tensor.make').here
local ops = require 'ridge.tensor.ops'
local options = require 'ridge.options'
local plain = require 'ridge.plain'
local ref = require 'ridge.ffi.ref'

ffi.cdef 'int rg_data_poll(void *, unsigned long, int) __asm__("poll");'

local Stream = class 'data.stream'

local SPEC = {
  batch = { 'integer', default = 32, min = 1, doc = 'rows in a batch' },
  batches = { 'integer', min = 1, doc = 'that an epoch has; until the end when left out' },
  drop_last = { 'boolean', default = false, doc = 'leave out a last batch that is not full' },
  dtype = { 'string|list', doc = "of numbers, 'f32' when left out; or a list, one for each value" },
  again = { 'function', doc = 'gives the iterator of the next epoch' },
  separator = { 'string', default = ',', doc = 'between two numbers of a line' },
  wait = { 'number', default = 0, min = 0,
    doc = 'seconds without a new line behind which a file has ended' },
}
local LONGEST = 2 ^ 20 -- bytes of a line
local PAUSE = 0.02 -- seconds between two looks at a file
local KEPT = 64 -- bytes of what was read last

-- -- Files that grow ------------------------------------------------------------------------------

-- What comes next, nil at the end. A file that was truncated, and is written anew, would go on in
-- the middle of a line, which may be other numbers: what was read last has to be there still.
local function more_of(self)
  local file, kept = self.file, self.kept
  if not file:seek('set', self.at - #kept) or #kept > 0 and file:read(#kept) ~= kept then
    blame.raise(('data.stream: %s was truncated or written anew: line %d is no longer where it was '
      .. 'read'):format(self.path, self.line), 'EIO')
  end
  local more = file:read(2 ^ 16)
  if more then
    self.at, self.kept = self.at + #more, (kept .. more):sub(-KEPT)
  end
  return more
end

-- The next whole line, nil at the end; what has no end yet is one only where nobody waits for it.
local function line_of(self)
  local waited = 0
  while true do
    local at = self.text:find('\n', self.from, true)
    if at then
      local line = self.text:sub(self.from, at - 1)
      self.from = at + 1
      return (line:gsub('\r$', ''))
    end
    -- lines that were given out go together: one by one they would copy all behind them
    self.text, self.from = self.text:sub(self.from), 1
    if #self.text > LONGEST then
      blame.raise(('data.stream: %s line %d has more than a megabyte'):format(self.path,
        self.line + 1), 'EFORMAT')
    end
    call.look 'data.stream'
    local more = more_of(self)
    if more then
      self.text, waited = self.text .. more, 0
    elseif waited >= self.wait then
      local last = self.wait == 0 and self.text:gsub('\r$', '') or ''
      if self.text ~= '' and last == '' then -- half of a number is another number
        plain.note(('data.stream: %s ends in a line without an end, which is left out: line %d\n')
          :format(self.path, self.line + 1))
      end
      self.text = ''
      return last ~= '' and last or nil
    else
      ffi.C.rg_data_poll(nil, 0, PAUSE * 1000)
      waited = waited + PAUSE
    end
  end
end

-- An iterator of the rows of a file, whose numbers have to be of a type.
local function rows_of(path, opts, kind)
  local file, why = io.open(path, 'rb')
  if not file then blame.raise('data.stream: ' .. why, 'EIO') end
  local self = { path = path, file = file, text = '', from = 1, line = 0, wait = opts.wait,
    at = 0, kept = '' }
  local size = file:seek 'end'
  if not (size == 0 or size and file:seek 'set' and file:read(0)) then -- a folder opens
    file:close()
    blame.raise(('data.stream: %s is no file'):format(path), 'EIO')
  end
  local columns
  return function()
    while true do
      local line = line_of(self)
      if not line then
        file:close()
        return nil
      end
      self.line = self.line + 1
      if self.line == 1 then line = line:gsub('^\239\187\191', '') end -- the mark of UTF-8
      if line:find '%S' then
        local row = csv.row(line, path, self.line, opts.separator, 'data.stream', kind)
        columns = columns or #row
        if #row ~= columns then
          blame.raise(('data.stream: %s line %d has %s, the first has %d'):format(path,
            self.line, plain.count(#row, 'field'), columns), 'EFORMAT')
        end
        return row
      end
    end
  end
end

-- -- Batches --------------------------------------------------------------------------------------

-- Values of as many rows, as one tensor.
local function stacked(list, kind, place)
  if ref.is(list[1]) then
    local rows = {}
    for i, x in ipairs(list) do
      ref.need(x, 'data.stream')
      if x:describe() ~= list[1]:describe() then
        blame.raise(('data.stream: value %d is %s in one row and %s in another'):format(place,
          list[1]:describe(), x:describe()), 'ESHAPE')
      end
      rows[i] = x:reshape(1, unpack(x:size()))
    end
    return ops.concat(rows, 1)
  end
  return blame.within('data.stream', function() return make.tensor(list, { dtype = kind }) end)
end

local function packed(...) return { n = select('#', ...), ... } end

-- The next row, checked; nil at the end.
local function row_of(self)
  if not self.next then return nil end
  local row = packed(self.next())
  if row.n == 0 or row[1] == nil then
    self.next = nil
    return nil
  end
  self.values = self.values or row.n
  self.taken = self.taken + 1
  if row.n ~= self.values then
    blame.raise(('data.stream: row %d has %s, and the first has %d'):format(self.taken,
      plain.count(row.n, 'value'), self.values), 'ESHAPE')
  end
  for i = 1, row.n do
    local v = row[i]
    if type(v) ~= 'number' and type(v) ~= 'table' and not ref.is(v) then
      blame.raise(('data.stream: value %d of row %d is %s; a number, a list or a tensor is '
        .. 'expected'):format(i, self.taken, blame.show(v)), 'EARG')
    end
  end
  return row
end

--- Batches of rows that come one after the other. An iterator gives the values of a row (numbers,
--- lists of numbers, tensors) and nil at its end; a path is a file with a row of numbers in each
--- line, to which others may still write: it is read as it grows, until nothing came for `wait`
--- seconds; a last line without an end may be half of one then, and is left out with a note. An
--- epoch is all that comes, or so many batches, and the next one goes on where it ended; at the end
--- `again` gives another iterator, and without it there is no further epoch.
---@param source function|string
---@param opts table|nil {batch = 32, batches =, drop_last = false, dtype = 'f32', again =,
---  separator = ',', wait = 0}
-- >> i = 0
-- >> stream = ridge.data.stream(function() i = i + 1 if i <= 5 then return {i, 2 * i}, i end end,
-- >>   {batch = 2})
-- >> for x, y in stream:each() do print(x.shape, y.shape) end
function Stream:init(source, opts)
  opts = options.check(SPEC, opts, 'data.stream')
  if type(source) ~= 'string' and not blame.callable(source) then
    blame.raise(('data.stream: an iterator or a path is expected, got %s'):format(
      blame.show(source)), 'EARG')
  end
  if not opts.separator:find '^[^"\r\n%d]$' then
    blame.raise('data.stream: the separator is one sign, no digit, quote or end of a line')
  end
  local kinds = type(opts.dtype) == 'table' and opts.dtype or { opts.dtype or 'f32' }
  for _, kind in ipairs(kinds) do dtype.code(kind, 'data.stream') end
  self.batch, self.batches, self.drop_last = opts.batch, opts.batches, opts.drop_last
  self.kinds, self.one_kind = kinds, type(opts.dtype) ~= 'table'
  self.again, self.taken = opts.again, 0
  self.next = type(source) == 'string' and rows_of(source, opts, opts.dtype and kinds[1]) or source
end

local function kind_of(self, place)
  local kind = self.kinds[self.one_kind and 1 or place]
  if not kind then
    blame.raise(('data.stream: value %d has no element type; dtype lists %d'):format(place,
      #self.kinds), 'EARG')
  end
  return kind
end

--- One epoch: for x, y in stream:each() do ... end.
---@return function iterator
function Stream:each()
  if not self.next and self.again then
    self.next, self.taken = self.again(), 0
    if not blame.callable(self.next) then
      blame.raise(('data.stream: again gives an iterator, got %s'):format(blame.show(self.next)),
        'EARG')
    end
  end
  local done = 0
  return function()
    if done == self.batches then return nil end
    local lists, n = {}, 0
    while n < self.batch do
      call.look 'data.stream'
      local row = row_of(self)
      if not row then break end
      n = n + 1
      for i = 1, row.n do
        lists[i] = lists[i] or {}
        lists[i][n] = row[i]
      end
    end
    if n == 0 or self.drop_last and n < self.batch then return nil end
    done = done + 1
    for i, list in ipairs(lists) do lists[i] = stacked(list, kind_of(self, i), i) end
    return unpack(lists)
  end
end

--- How far it is: `load_state` of a stream from the same beginning passes over as many rows.
---@return table state taken
function Stream:state() return { taken = self.taken } end

--- Go on where another one was.
---@param state table as `state` gives it
---@return table self
function Stream:load_state(state)
  local taken = type(state) == 'table' and state.taken
  if type(taken) ~= 'number' or taken % 1 ~= 0 or taken < self.taken then
    blame.raise(('data.stream:load_state: %d rows were taken, and the state says %s'):format(
      self.taken, blame.show(taken)), 'EARG')
  end
  while self.taken < taken do
    call.look 'data.stream'
    if not row_of(self) then
      blame.raise(('data.stream:load_state: the source ends behind %d of %d rows'):format(
        self.taken, taken), 'EARG')
    end
  end
  return self
end

function Stream:__tostring()
  return ('data.stream(batches of %d, %s taken%s)'):format(self.batch,
    plain.count(self.taken, 'row'), self.next and '' or ', at its end')
end

return { stream = Stream }
