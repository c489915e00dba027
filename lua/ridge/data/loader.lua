-- SPDX-License-Identifier: MIT
--- Batches of tensors, in another order each epoch.

local call = require 'ridge.ffi.call'
local ref = require 'ridge.ffi.ref'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local class = require('ridge.class').class
local make = require 'ridge.tensor.make'
local options = require 'ridge.options'
local random = require 'ridge.random'

local M = {}

local slot = ref.slot

local Loader = class('data.Loader')

local SPEC = {
  batch = { 'integer', default = 32, min = 1, doc = 'rows in a batch' },
  shuffle = { 'boolean', default = true, doc = 'another order each epoch' },
  seed = { 'integer', min = 0, max = 2 ^ 53,
    doc = 'of the orders; one from the default stream when left out' },
  drop_last = { 'boolean', default = false, doc = 'leave out a last batch that is not full' },
}

local function rows_of(x) return x._t._ndim > 0 and tonumber(x._t._shape[0]) or 0 end

--- Batches over the first axis of some tensors.
---@param tensors Tensor[] each with the same number of rows
---@param opts table|nil {batch = 32, shuffle = true, seed =, drop_last = false}
-- >> loader = ridge.data.Loader({ridge.randn(10, 3), ridge.zeros(10)}, {batch = 4, seed = 1})
-- >> for x, y in loader:each() do print(x:describe(), y:describe()) end
function Loader:init(tensors, opts)
  opts = options.check(SPEC, opts, 'data.Loader')
  if ref.is(tensors) then tensors = { tensors } end
  if type(tensors) ~= 'table' or #tensors == 0 then
    blame.raise('data.Loader: a list of tensors is expected', 'EARG')
  end
  for i, x in ipairs(tensors) do
    ref.need(x, 'data.Loader')
    if rows_of(x) ~= rows_of(tensors[1]) then
      blame.raise(('data.Loader: tensor %d has %d rows and the first %d'):format(i, rows_of(x),
        rows_of(tensors[1])), 'ESHAPE')
    end
  end
  self.rows = rows_of(tensors[1])
  if self.rows == 0 then blame.raise('data.Loader: the data set is empty', 'EARG') end
  if opts.drop_last and opts.batch > self.rows then
    blame.raise(('data.Loader: a batch of %d is larger than the %d rows there are, and drop_last '
      .. 'leaves none'):format(opts.batch, self.rows), 'EARG')
  end
  self.tensors, self.batch, self.drop_last = tensors, opts.batch, opts.drop_last
  if opts.shuffle then
    self.generator = random.generator(opts.seed or make.randint(0, 2 ^ 31, 1):item())
  end
end

--- How many batches an epoch has.
---@return number
function Loader:len()
  return self.drop_last and math.floor(self.rows / self.batch)
    or math.ceil(self.rows / self.batch)
end

-- All row numbers in a random order (Fisher and Yates; Durstenfeld, 1964).
local function shuffled(self)
  local n, list = self.rows, {}
  for i = 1, n do list[i] = i - 1 end
  local draws = make.rand(n, { generator = self.generator, dtype = 'f64' }):tolist()
  for i = n, 2, -1 do
    local j = math.floor(draws[i] * i) + 1
    list[i], list[j] = list[j], list[i]
  end
  return make.tensor(list, { dtype = 'i64' })
end

local function taken(x, index)
  call.settle()
  call.check(C.rg_take(x._t, index._t, slot))
  return ref.wrap(slot[0])
end

--- One epoch: for x, y in loader:each() do ... end. In an order of its own each time.
---@return function iterator
function Loader:each()
  local order = self.generator and shuffled(self)
  local at, n, all = 0, self.rows, self:len()
  local done = 0
  return function()
    if done == all then return nil end
    local size = math.min(self.batch, n - at)
    local out = {}
    local index = order and order:narrow(1, at + 1, size)
    for i, x in ipairs(self.tensors) do
      out[i] = index and taken(x, index) or x:narrow(1, at + 1, size)
    end
    at, done = at + size, done + 1
    return unpack(out)
  end
end

--- Where its orders stand: give it to `go_on` of a loader of the same data, and the epochs that
--- follow are the same.
---@return table state seed, offset; empty without shuffling
function Loader:state()
  local g = self.generator
  return g and { seed = g:seed(), offset = g:offset() } or {}
end

--- Go on where another one was.
---@param state table as `state` gives it
---@return table self
function Loader:go_on(state)
  if self.generator and state.seed then
    C.rg_generator_set(self.generator._g, state.seed, state.offset)
  end
  return self
end

function Loader:__tostring()
  return ('data.Loader(%d rows in %d batches of %d)'):format(self.rows, self:len(), self.batch)
end

M.Loader = Loader

return M
