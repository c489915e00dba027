-- SPDX-License-Identifier: MIT
--- Batches of tensors, in another order each epoch.

local ffi = require 'ffi'
local call = require 'ridge.ffi.call'
local guard = require 'ridge.guard'
local ref = require 'ridge.ffi.ref'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local class = require 'ridge.class'
local columns = require 'ridge.data.csv_columns'
local dtype = require 'ridge.tensor.dtype'
local make = require('ridge.tensor.make').here
local options = require 'ridge.options'
local Ahead = require 'ridge.data.ahead'
local Pool = require 'ridge.data.pool'
local random = require 'ridge.random'
local ranges = require 'ridge.ranges'
local rows = require 'ridge.data.rows'

local M = {}

local slot = ref.slot

local Loader = class.class 'data.Loader'

local SPEC = {
  batch = { 'integer', default = 32, min = 1, doc = 'rows in a batch' },
  shuffle = { 'boolean', default = true, doc = 'another order each epoch' },
  seed = { 'integer', min = 0, max = 2 ^ 53,
    doc = 'of the orders; one from the default stream when left out' },
  drop_last = { 'boolean', default = false, doc = 'leave out a last batch that is not full' },
  workers = { 'integer', default = 0, min = 0, max = 256,
    doc = 'threads that gather batches; they stay from epoch to epoch' },
  prefetch = { 'integer', default = 2, min = 1, max = 16,
    doc = 'batches ahead, for each thread and on a GPU' },
  device = { 'string', names = { 'cpu', 'auto', 'cuda:0' },
    doc = 'where batches are handed out; where the sources are when left out' },
  pinned = { 'boolean', default = true,
    doc = "gather into memory that a GPU's copies reach by themselves, or wait for each copy" },
  prepared = { 'table', doc = 'how ridge.data.csv prepared the sources: goes into checkpoints' },
  world = { 'table', doc = 'of ridge.dist.init: each rank gets its rows of each batch' },
  transform = { 'function', doc = 'f(number, row, ...) that changes each row, in the threads' },
}

local function rows_of(x)
  if not ref.is(x) then return x.rows end
  return x._t._ndim > 0 and tonumber(x._t._shape[0]) or 0
end

local function check_sources(list)
  for i, x in ipairs(list) do
    if not rows.is(x) then ref.need(x, 'data.Loader') end
    if rows_of(x) ~= rows_of(list[1]) then
      blame.raise(('data.Loader: tensor %d has %d rows and the first %d'):format(i, rows_of(x),
        rows_of(list[1])), 'ESHAPE')
    end
  end
end

-- The GPU on which the sources are; 0 where they are on the CPU.
local function source_device(list)
  local device
  for i, x in ipairs(list) do
    local here = ref.is(x) and x._t._device or 0
    device = device or here
    if here ~= device then
      blame.raise(('data.Loader: tensor %d is on %s and the first on %s'):format(i,
        ffi.string(C.rg_device_name(here)), ffi.string(C.rg_device_name(device))), 'EDEVICE')
    end
  end
  return device
end

-- Where batches go, and what cannot be.
local function choose_device(self, opts)
  local home = source_device(self.sources)
  local device = opts.device and dtype.device(opts.device, 'data.Loader') or home
  if home ~= 0 then
    local name = ffi.string(C.rg_device_name(home))
    if device ~= home then
      blame.raise(('data.Loader: the tensors are on %s, and so are their batches; device is %s')
        :format(name, opts.device), 'EDEVICE')
    end
    if opts.workers > 0 or opts.transform then
      blame.raise(('data.Loader: threads and transforms gather on the CPU, and the tensors are on '
        .. '%s'):format(name), 'EDEVICE')
    end
  end
  self.device, self.home, self.name = device, home, ffi.string(C.rg_device_name(device))
end

-- The ranks that batches are shared out to; alone it is one.
local function join(self, opts)
  local world = opts.world
  self.rank, self.ranks, self.whole = 0, 1, opts.batch
  if not world then return end
  local worlds = require 'ridge.world'
  if not worlds.is(world) then
    blame.raise('data.Loader: world is what ridge.dist.init gives, got ' .. blame.show(world),
      'EARG')
  end
  self.rank, self.ranks = world.rank, world.size
  self.whole = opts.batch * world.first_size
  local lines = { ('there are %d rows'):format(self.rows) }
  for _, name in ipairs { 'batch', 'shuffle', 'drop_last', 'seed' } do
    lines[#lines + 1] = ('option %s is %s'):format(name, tostring(opts[name]))
  end
  worlds.agree(world, 'data.Loader', lines)
end

-- Who gathers: threads where there are any, and before a GPU's copies.
local function open(self, workers, transform)
  local o = self.opts
  self.pool = Pool(self.sources, workers, o.prefetch, transform)
  if self.device ~= self.home then
    local most = math.ceil(self.whole / self.ranks)
    self.ahead = Ahead(self.pool, self.device, math.min(most, self.rows), o.prefetch, o.pinned)
  end
end

--- Batches over the first axis of some tensors, or of rows in files (ridge.data.rows).
---
--- With workers, threads gather the batches ahead while others compute; `transform` runs there, in
--- a Lua state for each: it sees nothing of this one, gets the number of the row (from 0) and a
--- pointer to the row's numbers in each source, and writes what it likes. Which batches there are
--- does not depend on the number of threads.
---
--- With device = 'cuda:0', batches are gathered into pinned memory, copied on a stream of their own
--- while others compute, `prefetch` of them ahead, and handed out as tensors of the GPU. Sources
--- that are on a GPU are gathered there.
---
--- With world = ridge.dist.init(), `batch` is that of each rank: size * batch rows are one batch of
--- all, in the same order everywhere (its seed is rank 0's), and each rank gets its part of it. All
--- have as many batches; of a last one that is not full the parts differ by one row at most, and
--- may have none. Where ridge launch goes on with fewer ranks, the batch of all stays as large, and
--- the parts grow.
---@param sources Tensor[] each with the same number of rows
---@param given table|nil {batch = 32, shuffle = true, seed =, drop_last = false, workers = 0,
---  prefetch = 2, device =, pinned = true, prepared =, transform =, world =}
-- >> loader = ridge.data.Loader({ridge.randn(10, 3), ridge.zeros(10)}, {batch = 4, seed = 1})
-- >> for x, y in loader:each() do print(x:describe(), y:describe()) end
function Loader:init(sources, given)
  local opts = options.check(SPEC, given, 'data.Loader')
  if ref.is(sources) or rows.is(sources) then sources = { sources } end
  if type(sources) ~= 'table' or #sources == 0 then
    blame.raise('data.Loader: a list of tensors is expected', 'EARG')
  end
  check_sources(sources)
  self.rows = rows_of(sources[1])
  if self.rows == 0 then blame.raise('data.Loader: the data set is empty', 'EARG') end
  join(self, opts)
  local all = self.whole
  if opts.drop_last and all > self.rows then
    blame.raise(('data.Loader: a batch of %d is larger than the %d rows there are, and drop_last '
      .. 'leaves none'):format(all, self.rows), 'EARG')
  end
  -- what somebody typed, not the default, and not by rounding up what a rank's part is; said once
  if all - self.ranks >= self.rows and given and given.batch and self.rank == 0 then
    local where = blame.where()
    io.stderr:write(('%sdata.Loader: a batch of %d is larger than the %d rows there are: each '
      .. 'epoch is one batch of %d\n'):format(where and where .. ': ' or '', all, self.rows,
      self.rows))
  end
  if opts.prepared and not class.is_a(opts.prepared, columns.Prepared) then
    blame.raise('data.Loader: prepared is the third result of ridge.data.csv, got '
      .. blame.show(opts.prepared))
  end
  self.prepared = opts.prepared
  self.sources, self.batch, self.drop_last = sources, opts.batch, opts.drop_last
  self.opts = { prefetch = opts.prefetch, pinned = opts.pinned }
  choose_device(self, opts)
  local files = false
  for _, x in ipairs(sources) do files = files or rows.is(x) end
  if opts.workers > 0 or opts.transform or files or self.device ~= self.home then
    self.transform = opts.transform
    open(self, opts.workers, opts.transform)
  end
  if opts.shuffle then
    local seed = opts.seed or make.randint(0, 2 ^ 31, 1):item()
    if opts.world then
      seed = require('ridge.world').first(opts.world, 'data.Loader', { seed })[1]
    end
    self.generator = random.generator(seed)
  end
end

local START = { workers = { 'integer', required = true, min = SPEC.workers.min,
  max = SPEC.workers.max, doc = SPEC.workers.doc } }

--- Let threads gather the batches from the next epoch on, where none do yet.
---@param workers number
---@return table self
function Loader:start(workers)
  workers = options.check(START, { workers = workers }, 'data.Loader:start').workers
  local nobody = not self.pool and self.home == 0 or self.ahead and self.pool.workers == 0
  if nobody and workers > 0 then open(self, workers, self.transform) end
  return self
end

--- How many batches an epoch has.
---@return number
function Loader:len()
  local all = self.whole
  return self.drop_last and math.floor(self.rows / all) or math.ceil(self.rows / all)
end

-- Which rows of an order a batch is, from 0: this rank's of those of all.
local function rows_at(self, step)
  local all = self.whole
  local first = step * all
  local part = ffi.new 'int64_t[2]'
  C.rg_group_part(math.min(all, self.rows - first), self.rank, self.ranks, part, part + 1)
  return first + tonumber(part[0]), tonumber(part[1])
end

-- All row numbers in a random order (Fisher and Yates; Durstenfeld, 1964).
local function shuffled(self)
  local n = self.rows
  local list = ffi.new('int64_t[?]', n)
  for i = 0, n - 1 do list[i] = i end
  local draws = make.rand(n, { generator = self.generator, dtype = 'f64' })
  local u = ffi.cast('const double *', draws._t._data)
  for i = n - 1, 1, -1 do
    local j = math.floor(u[i] * (i + 1))
    list[i], list[j] = list[j], list[i]
  end
  return list
end

local function taken(x, index)
  call.settle()
  local st = C.rg_take(x._t, index._t, slot)
  if st ~= 0 then call.fail(st) end
  return ref.wrap(slot[0])
end

-- Numbers of rows first .. first + n - 1 of an order, as a tensor.
local function part_of(order, first, n)
  local index = make.empty(n, { dtype = 'i64' })
  call.check(C.rg_tensor_write(index._t, order + first, n * 8))
  return index
end

-- Batches that others gather and copy, who hand them out in the order in which they were ordered.
-- Several iterations may be under way: what is handed out while another one waits is put aside for
-- it. Each has at most as many batches ahead as there is room for, so none fills the memory.
local function from_source(self, order)
  local source, all = self.ahead or self.pool, self:len()
  local own = { n = 0, aside = {} } -- n: batches ordered, and not taken or put aside
  local ordered, taken_ = 0, 0
  local function order_more()
    while ordered < all and own.n + #own.aside < source.most and source:has_room() do
      source:order(own, order, rows_at(self, ordered))
      ordered, own.n = ordered + 1, own.n + 1
    end
  end
  return function()
    while true do
      order_more()
      if taken_ == all then return nil end
      if own.aside[1] then
        taken_ = taken_ + 1
        return table.remove(own.aside, 1)()
      end
      local whose, batch = source:oldest(order_more)
      whose.n = whose.n - 1
      table.insert(whose.aside, batch)
    end
  end
end

-- Batches that are gathered when they are asked for.
local function gathered(self, order)
  local all, done = self:len(), 0
  return function()
    if done == all then return nil end
    local at, size = rows_at(self, done)
    local out = {}
    local index = order and part_of(order, at, size)
    if index and self.home ~= 0 then index = index:to { device = self.name } end
    for i, x in ipairs(self.sources) do
      out[i] = index and taken(x, index) or x:narrow(1, at + 1, size)
    end
    done = done + 1
    return unpack(out)
  end
end

--- One epoch: for x, y in loader:each() do ... end. In an order of its own each time. Several may
--- be under way at once, each with all of its batches.
---@return function iterator
function Loader:each()
  local order = self.generator and ranges.section('data_loading', shuffled, self)
  local next_batch = self.pool and from_source(self, order) or gathered(self, order)
  return function() return ranges.section('data_loading', next_batch, self) end
end

--- Where its orders stand: give it to `load_state` of a loader of the same data, and the epochs
--- that follow are the same.
---@return table state seed, offset; empty without shuffling; prepared, where the loader has that
function Loader:state()
  local state = self.generator and self.generator:state() or {}
  state.prepared = self.prepared and self.prepared:state()
  return state
end

--- Go on where another one was.
---@param state table as `state` gives it
---@return table self
function Loader:load_state(state)
  if type(state) ~= 'table' then
    blame.raise(('data.Loader:load_state: a state is expected, got %s'):format(blame.show(state)),
      'EARG')
  end
  if state.prepared ~= nil and self.prepared then
    self.prepared:load_state(state.prepared)
  elseif state.prepared ~= nil then
    if not columns.is_preparation(state.prepared) then
      blame.raise('data.Loader:load_state: prepared is no preparation of ridge.data.csv', 'EARG')
    end
    self.prepared = columns.Prepared(state.prepared)
  end
  if self.generator and state.seed then self.generator:load_state(state) end
  return self
end

Loader.go_on = Loader.load_state

function Loader:__tostring()
  return ('data.Loader(%d rows in %d batches of %d%s%s)'):format(self.rows, self:len(), self.batch,
    self.pool and (', %d threads'):format(self.pool.workers) or '',
    self.device ~= 0 and ', on ' .. self.name or '')
end
Loader.__tostring = guard.text(Loader.__tostring)

M.Loader = Loader

return M
