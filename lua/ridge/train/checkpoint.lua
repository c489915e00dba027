-- SPDX-License-Identifier: MIT
--- What a training depends on, as a file: tensors by name, and everything else as JSON in one more
--- tensor of bytes. What has a memory gives it with `state` and takes it with `load_state`.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local canonical = require 'ridge.store.canonical'
local file = require 'ridge.train.file'
local make = require('ridge.tensor.make').here
local ref = require 'ridge.ffi.ref'

local M = {}

local FORMAT = '2' -- of what stands beside the tensors
local REST = 'ridge.state' -- the name of the bytes

-- -- Numbers and bytes ----------------------------------------------------------------------------

-- JSON has no such numbers; -0 would lose its sign.
local function special(x)
  if x ~= x then return 'nan' end
  if x == math.huge then return 'inf' end
  if x == -math.huge then return '-inf' end
  return x == 0 and 1 / x < 0 and '-0' or nil
end

local SPECIAL = { nan = 0 / 0, inf = math.huge, ['-inf'] = -math.huge, ['-0'] = -0.0 }

local function bytes_of(text)
  local x = make.empty(#text, { dtype = 'u8' })
  call.check(C.rg_tensor_write(x._t, text, #text))
  return x
end

local function text_of(x)
  local n = tonumber(x.bytes)
  local buffer = ffi.new('uint8_t[?]', math.max(n, 1))
  call.check(C.rg_tensor_read(x._t, buffer, n))
  return ffi.string(buffer, n)
end

-- -- Long lists of rows, by column ----------------------------------------------------------------

local LONG = 32 -- rows: JSON would take seconds for ten thousand

-- Columns of rows of numbers, texts and booleans: name to kind; nil where it is no such list.
local function columns_of(list)
  if type(list[1]) ~= 'table' or #list < LONG then return nil end
  local kinds, n = {}, 0
  for key, row in pairs(list) do
    n = n + 1
    if type(key) ~= 'number' or type(row) ~= 'table' then return nil end
    for name, v in pairs(row) do
      local kind = type(v)
      if type(name) ~= 'string' or kinds[name] and kinds[name] ~= kind
        or kind ~= 'number' and kind ~= 'string' and kind ~= 'boolean' then return nil end
      kinds[name] = kind
    end
  end
  return n == #list and kinds or nil
end

-- What a text or boolean is as a number; 0 stands for nothing, and numbers are themselves.
local function coded(words, at, v)
  if v == nil then return 0 end
  if not at[v] then
    words[#words + 1] = v
    at[v] = #words
  end
  return at[v]
end

local function packed_rows(list, kinds, path, tensors)
  local columns = {}
  for name, kind in pairs(kinds) do
    local values, there = ffi.new('double[?]', #list), ffi.new('uint8_t[?]', #list)
    local words, at = canonical.list {}, {}
    for i, row in ipairs(list) do
      local v = row[name]
      there[i - 1] = v ~= nil and 1 or 0
      values[i - 1] = kind == 'number' and (v or 0) or coded(words, at, v)
    end
    local where, which = path .. '.values.' .. name, path .. '.there.' .. name
    tensors[where] = bytes_of(ffi.string(values, 8 * #list))
    tensors[which] = bytes_of(ffi.string(there, #list))
    columns[name] = { values = where, there = which, words = kind ~= 'number' and words or nil }
  end
  return { rows = #list, columns = columns }
end

-- What a file speaks of and does not have is found out while it is read, and said of the file.
local function known(list, name)
  if list[name] == nil then error('there is no ' .. tostring(name), 0) end
  return list[name]
end

local function unpacked_rows(value, tensors)
  local list = {}
  for name, column in pairs(value.columns) do
    local text = text_of(known(tensors, column.values))
    local there = text_of(known(tensors, column.there))
    if #there ~= value.rows or #text ~= 8 * #there then error('rows are missing', 0) end
    -- not by a cast: LuaJIT takes some NaNs that a file can have for other values than numbers
    local values = ffi.new('double[?]', math.max(1, #there))
    call.check(C.rg_doubles_from(text, #there, C.RG_F64, values))
    for i = #list + 1, value.rows do list[i] = {} end
    for i = 1, value.rows do
      if there:byte(i) == 1 then
        local v = values[i - 1]
        if column.words then v = column.words[v] end
        list[i][name] = v
      end
    end
  end
  return list
end

-- -- Everything -----------------------------------------------------------------------------------

-- A copy in which tensors are named, and put beside it.
local function packed(value, path, tensors)
  if ref.is(value) then
    tensors[path] = value
    return { tensor = path }
  end
  if type(value) == 'number' then
    local name = special(value)
    return name and { number = name } or value
  end
  if type(value) ~= 'table' then return value end
  local kinds = columns_of(value)
  if kinds then return packed_rows(value, kinds, path, tensors) end
  local out = {}
  for key, each in pairs(value) do
    out[key] = packed(each, path .. '.' .. tostring(key), tensors)
  end
  return out
end

local function unpacked(value, tensors)
  if type(value) ~= 'table' then return value end
  if type(value.tensor) == 'string' then return known(tensors, value.tensor) end
  if type(value.number) == 'string' then return known(SPECIAL, value.number) end
  if type(value.columns) == 'table' then return unpacked_rows(value, tensors) end
  local out = {}
  for key, each in pairs(value) do out[key] = unpacked(each, tensors) end
  return out
end

-- -- Files ----------------------------------------------------------------------------------------

--- Write a state, whole or not at all.
---@param path string
---@param state table of numbers, texts, booleans, tensors and such tables; model and optimizer are
---  tensors by name, and stand under those names in the file
function M.save(path, state)
  local tensors, rest = {}, {}
  for name, value in pairs(state) do
    if name == 'model' or name == 'optimizer' then
      for key, x in pairs(value) do tensors[name .. '.' .. key] = x end
    else
      rest[name] = packed(value, name, tensors)
    end
  end
  tensors[REST] = bytes_of(canonical.encode(rest))
  file.save(path, tensors, { ridge = canonical.encode { format = FORMAT, epoch = state.epoch } })
end

local function split(tensors, prefix)
  local out = {}
  for name, x in pairs(tensors) do
    if name:sub(1, #prefix) == prefix then out[name:sub(#prefix + 1)] = x end
  end
  return out
end

--- Read what `save` wrote.
---@param path string
---@return table|nil state nil where there is no such file
function M.load(path)
  local there = io.open(path, 'rb')
  if not there then return nil end
  there:close()
  local tensors, notes = file.load(path)
  local rest = tensors[REST] and tensors[REST].dtype == 'u8' and text_of(tensors[REST])
  local read, facts = pcall(canonical.decode, notes.ridge or '')
  local ok, state = pcall(canonical.decode, rest or '')
  if not (read and type(facts) == 'table' and facts.format == FORMAT and ok
      and type(state) == 'table') then
    blame.raise(('Trainer: %s is no checkpoint of a trainer, or one of another version'):format(
      path), 'EFORMAT')
  end
  ok, state = pcall(unpacked, state, tensors)
  if not ok then
    blame.raise(('Trainer: the checkpoint %s is damaged: %s'):format(path, tostring(state)),
      'EFORMAT')
  end
  state.model, state.optimizer = split(tensors, 'model.'), split(tensors, 'optimizer.')
  return state
end

-- -- Parts with a memory --------------------------------------------------------------------------

--- The states of those of some parts that have one.
---@param parts table by name
---@return table states by name
function M.states(parts)
  local out = {}
  for name, part in pairs(parts) do
    if type(part) == 'table' and type(part.state) == 'function' then out[name] = part:state() end
  end
  return out
end

--- A copy of a state into which nothing writes when what it is of goes on.
---@param value any
---@return any
function M.still(value)
  if ref.is(value) then return value:detach():clone() end
  if type(value) ~= 'table' then return value end
  local out = {}
  for key, each in pairs(value) do out[key] = M.still(each) end
  return out
end

--- Give parts the states they had: all of them, or none when one does not fit.
---@param parts table by name
---@param states table by name; parts that it has none of stay
function M.load_parts(parts, states)
  local before = M.still(M.states(parts))
  for name, part in pairs(parts) do
    if states[name] and part.load_state then
      local ok, err = pcall(part.load_state, part, states[name])
      if not ok then
        for other, state in pairs(before) do parts[other]:load_state(state) end
        error(err, 0)
      end
    end
  end
end

return M
