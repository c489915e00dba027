-- SPDX-License-Identifier: MIT
--- What becomes of the columns of a CSV file: which are taken, what is missing in them and what it
--- is filled with, texts as numbers of categories. What was decided from the file (mean, codes) is
--- kept as a preparation, so that another file, or a training that goes on, is treated the same.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local colour = require 'ridge.show.colour'
local class_of = require 'ridge.class'
local class = class_of.class
local make = require('ridge.tensor.make').here
local near = require 'ridge.near'
local pieces = require 'ridge.tensor.pieces'
local plain = require 'ridge.plain'
local value = require 'ridge.show.value'

local M = {}

local CHUNK = 2 ^ 16 -- numbers in a piece of memory: what is read grows without being copied

local function wrong(text, ...)
  blame.raise('data.csv: ' .. text:format(...), 'EARG', 'data.csv')
end

-- -- The preparation ------------------------------------------------------------------------------

local Prepared = class 'data.Prepared'
M.Prepared = Prepared

--- What a file was prepared with, out of what `state` gave.
---@param state table { columns, categories, filled, missing }
function Prepared:init(state)
  self.names = state.names
  self.categories, self.filled, self.missing = state.categories, state.filled, state.missing
end

local function is_same(a, b)
  if type(a) ~= type(b) then return false end
  if type(a) ~= 'table' then return a == b or a ~= a and b ~= b end
  for key, each in pairs(a) do
    if not is_same(each, b[key]) then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

--- What another file needs to be prepared alike; ridge.data.csv takes it as `like`.
---@return table state names (of the columns), categories (texts in the order of their codes, from
---  0), filled (value by column), missing
function Prepared:state()
  local filled = {}
  for name, each in pairs(self.filled) do filled[name] = { value = each.value } end
  return { names = self.names, categories = self.categories, filled = filled,
    missing = self.missing }
end

local function is_list(t, kinds)
  if type(t) ~= 'table' then return false end
  for _, each in ipairs(t) do
    if not kinds[type(each)] then return false end
  end
  return true
end

--- Has a value the parts of a preparation, each of its kind?
---@param like any
---@return boolean
function M.is_preparation(like)
  if not (is_list(like, {}) and is_list(like.names, { string = true, number = true })
      and is_list(like.missing, { string = true }) and is_list(like.categories, {})
      and is_list(like.filled, {})) then return false end
  for name, texts in pairs(like.categories) do
    if type(name) ~= 'string' or not is_list(texts, { string = true }) then return false end
    local seen = {}
    for _, text in ipairs(texts) do
      if seen[text] then return false end -- which of the codes would it be?
      seen[text] = true
    end
  end
  for name, each in pairs(like.filled) do
    if type(name) ~= 'string' or type(each) ~= 'table' or type(each.value) ~= 'number' then
      return false
    end
    local texts = like.categories[name]
    if texts and texts[each.value + 1] == nil then return false end -- a code that no text has
  end
  return true
end

--- Refuse to go on with data that was prepared otherwise: a network that learned from one coding
--- computes nonsense from another.
---@param state table as `state` gives it
---@return table self
function Prepared:load_state(state)
  local own = self:state()
  if class_of.is_a(state, Prepared) then state = state:state() end
  for _, part in ipairs { 'names', 'categories', 'filled', 'missing' } do
    if type(state) ~= 'table' or not is_same(state[part], own[part]) then
      blame.raise(('data.csv: the data was prepared with other %s than what the state is of; '
        .. 'ridge.data.csv(path, {like = state}) prepares it alike'):format(part), 'EARG')
    end
  end
  return self
end

-- What is said of columns, in their order.
local function keys_in_order(self, t)
  local keys, seen = {}, {}
  for _, name in ipairs(self.names) do
    local key = tostring(name)
    if t[key] ~= nil and not seen[key] then keys[#keys + 1] = key end
    seen[key] = true
  end
  return keys
end

local function lines_of(self)
  local lines = {}
  for _, name in ipairs(keys_in_order(self, self.categories)) do
    local list, some = self.categories[name], {}
    for i = 1, math.min(6, #list) do some[i] = plain.line(list[i]) end
    lines[#lines + 1] = ('%s: %s (%s%s)'):format(plain.line(name), #list == 1 and '1 category'
      or #list .. ' categories', table.concat(some, ', '), #list > 6 and ', ...' or '')
  end
  for _, name in ipairs(keys_in_order(self, self.filled)) do
    local each = self.filled[name]
    local list = self.categories[name]
    local text = list and list[each.value + 1]
    lines[#lines + 1] = ('%s: %s filled with %s'):format(plain.line(name), each.rows
      and plain.count(each.rows, 'row') or 'rows', text and ('%s (%d)'):format(plain.line(text),
      each.value) or ('%.7g'):format(each.value))
  end
  return lines
end

local LONGEST = 100 -- columns of a line in a list

local function line(self)
  local lines, n = lines_of(self), plain.count(#self.names, 'column')
  if #lines == 0 then return n end
  local text = table.concat(lines, '; ', 1, math.min(#lines, 4))
  if #lines <= 4 and colour.width(text) <= LONGEST then return text end
  local coded, filled = #keys_in_order(self, self.categories), #keys_in_order(self, self.filled)
  return n .. (coded > 0 and (', %d of categories'):format(coded) or '')
    .. (filled > 0 and (', %d that are filled'):format(filled) or '')
end

local shown = value.class('data.Prepared', { line = line, box = function(self)
  local lines = lines_of(self)
  return #lines > 0 and table.concat(lines, '\n') or plain.count(#self.names, 'column')
end })
Prepared.__line, Prepared.__box, Prepared.__tostring = shown.__line, shown.__box, shown.__tostring

-- -- The plan -------------------------------------------------------------------------------------

-- The place of a column that was named, or numbered from 1.
local function place_of(which, names, n, path)
  if type(which) == 'number' then
    if which ~= math.floor(which) or which < 1 or which > n then
      wrong('%s has %d columns, and no column %s', path, n, blame.show(which))
    end
    return which
  end
  if type(which) ~= 'string' then wrong('a column is a name or a number, got %s',
    blame.show(which)) end
  if not names then wrong('%s names no columns: %s is a number then', path, blame.show(which)) end
  local place
  for i, name in ipairs(names) do
    if name == which then
      if place then
        wrong('%s has two columns named %s: say its number', path, blame.show(which))
      end
      place = i
    end
  end
  if not place then
    wrong('%s has no column %s%s', path, blame.show(which), near.hint(which, names))
  end
  return place
end

local FILLS = { mean = true, median = true, mode = true }

local function check_fill(fill)
  if fill == nil or FILLS[fill] or type(fill) == 'number' and fill == fill then return fill end
  wrong("fill is 'mean', 'median', 'mode' or a number, got %s", blame.show(fill))
end

-- What a table by column says of each place.
local function by_place(list, names, n, path)
  local out = {}
  for which, each in pairs(list) do out[place_of(which, names, n, path)] = each end
  return out
end

local function missing_of(list)
  local out = {}
  for _, text in ipairs(list) do
    if type(text) ~= 'string' then
      wrong('missing is a number, or a list of texts, and has %s', blame.show(text))
    end
    out[text] = true
  end
  return out
end

-- What a preparation calls columns: by their names, or numbers where others have that name too.
local function keys_of(names, n)
  local count, keys = {}, {}
  for i = 1, n do
    keys[i] = i
    if names then count[names[i]] = (count[names[i]] or 0) + 1 end
  end
  for i, name in ipairs(names or {}) do
    if count[name] == 1 then keys[i] = name end
  end
  return keys
end

--- What to do with each column.
---@param opts table options of data.csv
---@param names string[]|nil the file's
---@param n number columns that it has
---@param path string
---@return table plan columns, each { at, name, key, code = text to number, fill, fixed }
function M.plan(opts, names, n, path)
  local like = opts.like
  local plan = { missing = missing_of(like and like.missing or type(opts.missing) == 'table'
    and opts.missing or opts.fill ~= nil and { '' } or {}), like = like }
  local wanted = like and like.names or opts.columns
  if not wanted then
    wanted = {}
    for i = 1, n do wanted[i] = i end
  end
  local categories = {}
  for _, which in ipairs(opts.categories or {}) do
    categories[place_of(which, names, n, path)] = true
  end
  local fill = type(opts.fill) == 'table' and by_place(opts.fill, names, n, path) or nil
  local keys, taken = keys_of(names, n), {} -- a column may be taken twice
  for i, which in ipairs(wanted) do
    local at = place_of(which, names, n, path)
    -- what a preparation calls a column: the file before may have had no names, or others twice
    local column = { at = at, name = names and names[at] or at, key = like and which or keys[at],
      missed = {} }
    taken[at] = true
    if fill then column.fill = check_fill(fill[at]) else column.fill = check_fill(opts.fill) end
    if like then
      local key = tostring(column.key)
      local list, filled = like.categories[key], like.filled[key]
      column.fixed = filled and filled.value
      if list then
        column.code = {}
        for code, text in ipairs(list) do column.code[text] = code - 1 end
      end
    elseif categories[at] then
      column.code, column.n = {}, 0
    end
    plan[i] = column
  end
  for at in pairs(taken) do
    categories[at] = nil
    if fill then fill[at] = nil end
  end
  local odd = next(categories) or next(fill or {})
  if odd then
    wrong('column %s is %s, but not among the columns that are taken', names and names[odd]
      or odd, categories[odd] and 'a category' or 'to be filled')
  end
  return plan
end

--- The code of a text in a column of categories; nil where they are known, and it is none of them.
---@param column table of a plan
---@param text string
---@return number|nil
function M.code(column, text)
  local code = column.code[text]
  if not code and column.n then
    code, column.n = column.n, column.n + 1
    column.code[text] = code
  end
  return code
end

-- -- Numbers that were read -----------------------------------------------------------------------

local Numbers = class 'data.csv.numbers'

--- Numbers that come one after the other.
---@param ctype string 'double' or 'int64_t'
function Numbers:init(ctype)
  self.ctype, self.n, self.chunks = ctype .. '[?]', 0, {}
end

--- One more.
---@param v number|cdata
function Numbers:add(v)
  local at = self.n % CHUNK
  if at == 0 then self.chunks[#self.chunks + 1] = ffi.new(self.ctype, CHUNK) end
  self.chunks[#self.chunks][at] = v
  self.n = self.n + 1
end

--- Numbers of the columns that are taken.
---@param row cdata double *, one of each column of the file
---@param plan table
function Numbers:row(row, plan)
  for i = 1, #plan do self:add(row[plan[i].at - 1]) end
end

--- Number i, from 0.
---@param i number
---@return number|cdata
function Numbers:get(i)
  return self.chunks[math.floor(i / CHUNK) + 1][i % CHUNK]
end

--- Change number i, from 0.
---@param i number
---@param v number|cdata
function Numbers:set(i, v)
  self.chunks[math.floor(i / CHUNK) + 1][i % CHUNK] = v
end

--- All of them as a matrix; they are gone then.
---@param rows number
---@param columns number
---@param dtype string
---@return Tensor
function Numbers:tensor(rows, columns, dtype)
  local x = make.empty(rows, columns, { dtype = dtype })
  local at, from = 0, 0
  pieces.write(x, 'data.csv', function(buffer, bytes)
    local filled = 0
    while filled < bytes do
      local n = math.min(CHUNK * 8 - from, bytes - filled)
      ffi.copy(buffer + filled, ffi.cast('const uint8_t *', self.chunks[at + 1]) + from, n)
      filled, from = filled + n, from + n
      if from == CHUNK * 8 then
        at, from = at + 1, 0
        self.chunks[at] = false -- not both at once
        if at % 1024 == 0 then collectgarbage() end
      end
    end
  end)
  return x
end

M.Numbers = Numbers

-- -- Behind the last line -------------------------------------------------------------------------

-- Codes in the order of their texts, whatever line had which first.
local function sort_codes(numbers, plan, k, rows)
  local column = plan[k]
  local texts, new = {}, {}
  for text in pairs(column.code) do texts[#texts + 1] = text end
  table.sort(texts)
  for code, text in ipairs(texts) do new[column.code[text]] = code - 1 end
  local missed = {}
  for _, row in ipairs(column.missed) do missed[row] = true end
  for row = 0, rows - 1 do
    local i = row * #plan + k - 1
    if not missed[row] then numbers:set(i, new[tonumber(numbers:get(i))]) end
  end
  column.texts = texts
end

-- The values of a column that are there.
local function present(numbers, plan, k, rows)
  local missed, list = {}, {}
  for _, row in ipairs(plan[k].missed) do missed[row] = true end
  for row = 0, rows - 1 do
    local v = tonumber(numbers:get(row * #plan + k - 1))
    if not missed[row] and v == v then list[#list + 1] = v end
  end
  return list
end

local function most_frequent(list)
  local counts, best = {}, nil
  for _, v in ipairs(list) do
    counts[v] = (counts[v] or 0) + 1
    if not best or counts[v] > counts[best] or counts[v] == counts[best] and v < best then
      best = v
    end
  end
  return best
end

-- What a column's missing values become.
local function filling(numbers, plan, k, rows, path)
  local column = plan[k]
  if column.fixed then return column.fixed end
  if type(column.fill) == 'number' and not column.code then return column.fill end
  local list = present(numbers, plan, k, rows)
  if #list == 0 then
    blame.raise(('data.csv: %s has nothing in column %s that it could be filled from'):format(path,
      column.name), 'EFORMAT')
  end
  if column.code or column.fill == 'mode' then return most_frequent(list) end
  if column.fill == 'median' then
    table.sort(list)
    local half = math.floor(#list / 2)
    if #list % 2 == 1 or list[half] == list[half + 1] then return list[half + 1] end
    return list[half] / 2 + list[half + 1] / 2 -- the sum may be more than a double holds
  end
  local mean = 0
  for i, v in ipairs(list) do mean = mean + (v - mean) / i end -- sums of large numbers overflow
  if mean - mean ~= 0 then
    blame.raise(("data.csv: %s has inf in column %s, which has no mean then: fill = 'median' or a "
      .. 'number'):format(path, column.name), 'EFORMAT')
  end
  return mean
end

--- Fill and code what was read.
---@param plan table
---@param numbers table data.csv.numbers, row by row
---@param rows number
---@param path string
---@param fits fun(value: number): boolean can the tensor's type hold it?
---@return table prepared
function M.finish(plan, numbers, rows, path, fits)
  local state = { names = {}, categories = {}, filled = {}, missing = {} }
  for text in pairs(plan.missing) do state.missing[#state.missing + 1] = text end
  table.sort(state.missing)
  for k, column in ipairs(plan) do
    local key = tostring(column.key) -- numbers, where the file names none
    if column.n then sort_codes(numbers, plan, k, rows) end
    if column.code then
      state.categories[key] = column.texts or plan.like.categories[key]
    end
    -- a column of which nothing is missing here may miss something in another file
    if column.fixed or column.fill then
      local v = filling(numbers, plan, k, rows, path)
      if #column.missed > 0 and not fits(v) then
        blame.raise(('data.csv: column %s would be filled with %.17g, which its type cannot hold: '
          .. "fill = 'median' or a number, or dtype = 'f32'"):format(column.name, v), 'EARG')
      end
      if #column.missed > 0 and math.abs(v) >= 2 ^ 53 and numbers.ctype == 'int64_t[?]'
          and FILLS[column.fill] and not column.fixed then
        blame.raise(('data.csv: column %s would be filled with about %.17g, which is rounded: fill '
          .. '= a number'):format(column.name, v), 'EARG')
      end
      for _, row in ipairs(column.missed) do numbers:set(row * #plan + k - 1, v) end
      state.filled[key] = { value = v, rows = #column.missed }
    end
    state.names[k] = column.key
  end
  return Prepared(state)
end

return M
