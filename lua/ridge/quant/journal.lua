-- SPDX-License-Identifier: MIT
--- What a search has measured until now, in a folder: the same search goes on from there, whatever
--- ended it.
---
--- A search is known by its question: the net's numbers, the rows it is chosen on, the options, the
--- machine. Each thing that was measured is a line of a file, written when it is known; nets lie
--- beside it. A line that was cut off when the process died is not read.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local make = require 'ridge.tensor.make'
local output = require 'ridge.ffi.output'
local place = require 'ridge.store.place'
local random = require 'ridge.random'
local sha256 = require 'ridge.store.sha256'
local in_no_grad = require('ridge.tensor.grad').no_grad

local M = {}

local FORMAT = 1

-- -- Questions ------------------------------------------------------------------------------------

local function digest_of(x)
  x = x:detach():to('cpu'):contiguous()
  return ('%s %.0f'):format(x:describe(), tonumber(C.rg_group_digest(x._t._data, x.bytes)))
end

local function short(text) return sha256.hex(sha256.digest(text)):sub(1, 16) end

--- A net as a text that is another one when any of its numbers is.
---@param net table
---@return string
function M.of_net(net)
  local parts, names, state = { tostring(net) }, {}, net:state()
  for name in pairs(state) do names[#names + 1] = name end
  table.sort(names)
  in_no_grad(function()
    for _, name in ipairs(names) do
      parts[#parts + 1] = name .. ' ' .. digest_of(state[name])
    end
  end)
  return short(table.concat(parts, '\n'))
end

--- The rows of a loader, in whichever order it gives them, with their labels.
---@param loader table|nil
---@return string
function M.of_rows(loader)
  if not loader then return 'none' end
  local list = {}
  in_no_grad(function()
    for x, labels in loader:each() do
      local rows = x:detach():to('cpu'):to('f64'):reshape(x:size(1), -1)
      local direction = make.randn(rows:size(2), 1, { dtype = 'f64',
        generator = random.generator(7) })
      local marks = rows:matmul(direction):reshape(-1):tolist()
      local own = type(labels) == 'table' and labels.ndim == 1 and labels:tolist() or {}
      for i, mark in ipairs(marks) do
        list[#list + 1] = ('%.10g:%s'):format(mark, tostring(own[i]))
      end
    end
  end)
  table.sort(list)
  return short(table.concat(list, '\n'))
end

--- What numbers that are measured here are of.
---@return string
function M.of_machine()
  local backend = require 'ridge.backend'
  return ('%s, %d threads'):format(backend.now().isa, backend.threads())
end

-- -- Values ---------------------------------------------------------------------------------------

-- Numbers that have no place in JSON are texts there.
local function packed(value)
  if type(value) == 'number' and value - value ~= 0 then
    return { ['$number'] = tostring(value) }
  elseif type(value) ~= 'table' then
    return value
  end
  local out = {}
  for key, each in pairs(value) do out[key] = packed(each) end
  return out
end

local ODD = { inf = math.huge, ['-inf'] = -math.huge }

local function unpacked(value)
  if type(value) ~= 'table' then return value end
  if value['$number'] then return ODD[value['$number']] or 0 / 0 end
  local out = {}
  for key, each in pairs(value) do out[key] = unpacked(each) end
  return out
end

-- -- Journals -------------------------------------------------------------------------------------

local Journal = {}
Journal.__index = Journal

local function lines_of(path)
  local file = io.open(path, 'rb')
  if not file then return {} end
  local text = file:read '*a'
  file:close()
  local list, whole = {}, 0
  for line, stop in text:gmatch '([^\n]*)\n()' do
    local ok, value = pcall(canonical.decode, line)
    if not ok or type(value) ~= 'table' then break end
    list[#list + 1], whole = unpacked(value), stop - 1
  end
  return list, text:sub(1, whole), whole < #text
end

-- How the questions of other searches in a folder differ.
local function others(self, question)
  local found = {}
  local pipe = io.popen(("ls '%s' 2>/dev/null"):format((self.folder:gsub("'", "'\\''"))))
  for name in pipe:lines() do
    if name:find '%.search$' and name ~= self.name .. '.search' then
      local head = lines_of(self.folder .. '/' .. name)[1]
      local asked = head and head.question
      for part, text in pairs(type(asked) == 'table' and asked or {}) do
        if question[part] ~= text then found[part] = true end
      end
    end
  end
  pipe:close()
  local names = {}
  for part in pairs(found) do names[#names + 1] = part end
  table.sort(names)
  return #names > 0 and table.concat(names, ', ') or nil
end

--- Open the journal of a search, and read what it holds.
---@param folder string made where it is missing
---@param question table texts by name: what must be equal
---@return table journal known (by key), before (how many things were known), other (in what other
---  searches of this folder differ, where this one is new)
function M.open(folder, question)
  place.make_folder(folder)
  local self = setmetatable({ folder = folder, known = {}, before = 0,
    name = short(canonical.encode(question)) }, Journal)
  self.path = ('%s/%s.search'):format(folder, self.name)
  local list, whole, cut = lines_of(self.path)
  if list[1] and list[1].format == FORMAT then
    for i = 2, #list do
      if type(list[i].key) == 'string' then self.known[list[i].key] = list[i].value end
    end
    for _ in pairs(self.known) do self.before = self.before + 1 end
    if cut then -- what follows would be a part of that line
      output.write(self.path, 'quant.search', whole)
    end
  else
    self.other = others(self, question)
    output.write(self.path, 'quant.search',
      canonical.encode { format = FORMAT, question = question } .. '\n')
  end
  local why
  self.file, why = io.open(self.path, 'ab')
  if not self.file then blame.raise('quant.search: ' .. why, 'EIO') end
  return self
end

--- Keep something that is known now.
---@param key string
---@param value any of texts, numbers, booleans and tables of them
function Journal:put(key, value)
  self.known[key] = value
  self.file:write(canonical.encode(packed { key = key, value = value }), '\n')
  self.file:flush()
end

local function file_of(self, key)
  return ('%s/%s-%s.safetensors'):format(self.folder, self.name, short(key))
end

--- Keep a net; false where it has no form in a file.
---@param key string
---@param net table
---@return boolean kept
function Journal:put_net(key, net)
  local path = file_of(self, key)
  local ok = pcall(net.save, net, path)
  if ok then self:put('net ' .. key, true) end
  return ok
end

--- A net that was kept, or nil.
---@param key string
---@return table|nil net
function Journal:net(key)
  if not self.known['net ' .. key] then return nil end
  local ok, net = pcall(require('ridge.nn').load, file_of(self, key))
  return ok and net or nil
end

--- Close it. What came to its end is taken away: the same search begins anew.
---@param whole boolean
function Journal:close(whole)
  self.file:close()
  if not whole then return end
  for key in pairs(self.known) do
    local net = key:match '^net (.*)$'
    if net then os.remove(file_of(self, net)) end
  end
  os.remove(self.path)
  os.remove(self.folder) -- where nothing else is in it
end

return M
