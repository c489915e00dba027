-- SPDX-License-Identifier: MIT
--- An optimizer whose moments are shared out over the ranks (ZeRO, stage 1; Rajbhandari 2020).
--
-- The parameters of a group lie one behind the other, and each rank has a range of their elements:
-- it keeps the moments of these alone, steps them, and sends the others what became of them. What a
-- step does to an element depends on that element, its gradient and its moments, so the bits are
-- those of an optimizer that has all.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local class = require 'ridge.class'
local make = require('ridge.tensor.make').here
local mode = require 'ridge.tensor.mode'
local Optimizer = require 'ridge.optim.optimizer'
local options = require 'ridge.options'
local ranges = require 'ridge.ranges'
local ref = require 'ridge.ffi.ref'
local same = require 'ridge.dist.same'
local worlds = require 'ridge.world'

local M = {}

local WHAT = 'dist.Sharded'

local ROOM = 2 ^ 22 -- elements that are sent at a time, of all ranks together

local Sharded = class.class(WHAT, Optimizer)

local function flat(x) return x:detach():view(x.count) end

-- -- Ranges -------------------------------------------------------------------------------------

-- What of each parameter lies in elements first .. first + n - 1 of a shard: f(place in the list,
-- first element of the parameter, how many, how far behind `first`), elements from 0.
local function each(shard, first, n, f)
  for k, at in ipairs(shard.at) do
    local from = math.max(first, at)
    local to = math.min(first + n, at + shard.counts[k])
    if from < to then f(k, from - at, to - from, from - first) end
  end
end

-- The range of a rank: all are as long, but for those at the end.
local function range_of(shard, rank)
  local first = math.min(shard.total, rank * shard.per)
  return first, math.min(shard.total, first + shard.per) - first
end

-- The parameters of one type in a group, and this rank's pieces of them.
local function shard_of(world, group, dtype)
  local shard = { index = {}, at = {}, counts = {}, total = 0, pieces = {} }
  for i, p in ipairs(group.params) do
    if p.dtype == dtype then
      local k = #shard.index + 1
      shard.index[k], shard.at[k], shard.counts[k] = i, shard.total, p.count
      shard.total = shard.total + p.count
    end
  end
  shard.per = math.ceil(shard.total / world.size)
  shard.first, shard.n = range_of(shard, world.rank)
  each(shard, shard.first, shard.n, function(k, from, n, behind)
    local i = shard.index[k]
    table.insert(shard.pieces, { i = i, from = from, n = n, behind = behind,
      param = flat(group.params[i]):narrow(1, from + 1, n) })
  end)
  return shard
end

local function types_of(group)
  local list, seen = {}, {}
  for _, p in ipairs(group.params) do
    if not seen[p.dtype] then list[#list + 1] = p.dtype end
    seen[p.dtype] = true
  end
  return list
end

-- -- Sending ------------------------------------------------------------------------------------

-- Pieces of all ranks become whole tensors everywhere.
-- mine: by piece, this rank's; whole: by place in the shard, flat; own: this rank's too.
local function spread(self, shard, mine, whole, own)
  local world, dtype, device = self.world, whole[1].dtype, whole[1].device
  local room = math.max(1, math.min(shard.per, math.floor(ROOM / world.size)))
  local out = make.zeros(room, { dtype = dtype, device = device })
  local all = make.empty(room * world.size, { dtype = dtype, device = device })
  for begin = 0, shard.per - 1, room do
    for i, piece in ipairs(shard.pieces) do
      local from = math.max(begin, piece.behind)
      local n = math.min(begin + room, piece.behind + piece.n) - from
      if n > 0 then
        out:narrow(1, from - begin + 1, n):copy_(mine[i]:narrow(1, from - piece.behind + 1, n))
      end
    end
    worlds.run(world, WHAT, { kind = C.RG_GROUP_ALL_GATHER, dtype = out._t._dtype, count = room,
      device = out._t._device, ['in'] = out._t._data, out = all._t._data }, out, all)
    for r = 0, world.size - 1 do
      local first, n = range_of(shard, r)
      n = math.max(0, math.min(n - begin, room))
      if own or r ~= world.rank then
        each(shard, first + begin, n, function(k, from, m, behind)
          whole[k]:narrow(1, from + 1, m):copy_(all:narrow(1, r * room + behind + 1, m))
        end)
      end
    end
  end
end

-- -- Making -------------------------------------------------------------------------------------

local function lines_of(optimizer)
  local list, lines = {}, { 'the optimizer is ' .. getmetatable(optimizer).__name }
  for g, group in ipairs(optimizer.groups) do
    for i, p in ipairs(group.params) do
      list[#list + 1] = { name = group.names[i] or ('%d.%d'):format(g, i), tensor = p }
    end
    local names = {}
    for name in pairs(group.options) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
      local value = group.options[name]
      lines[#lines + 1] = ('option %s of group %d is %s'):format(name, g, type(value) == 'table'
        and table.concat(value, ', ') or tostring(value))
    end
  end
  for _, line in ipairs(same.lines(list)) do lines[#lines + 1] = line end
  return lines
end

local function check(world, optimizer)
  if not class.is_a(optimizer, Optimizer) or class.is_a(optimizer, Sharded) then
    blame.raise(('%s: an optimizer is expected, got %s'):format(WHAT, blame.show(optimizer)),
      'EARG')
  end
  optimizer:look_again()
  for _, group in ipairs(optimizer.groups) do
    for i, p in ipairs(group.params) do
      worlds.reach(world, WHAT, p)
      if not p.is_contiguous then
        blame.raise(('%s: parameters of ranks are contiguous, and %s is %s'):format(
          WHAT, group.names[i] or 'parameter ' .. i, p:describe()), 'EARG')
      end
    end
  end
end

-- A group whose moments are those of this rank's pieces; the others' are let go.
local function part(self, group)
  local new = { where = group.where, params = group.params, names = group.names,
    options = group.options, base = group.base, core = group.core, places = group.places,
    buffers = group.buffers, shards = {}, n_states = #group.states, states = {} }
  local n = 0
  for _, dtype in ipairs(types_of(group)) do
    local shard = shard_of(self.world, group, dtype)
    for _, piece in ipairs(shard.pieces) do
      piece.state = {}
      for k = 1, new.n_states do
        piece.state[k] = flat(group.states[k][piece.i]):narrow(1, piece.from + 1, piece.n):clone()
      end
    end
    n = n + #shard.pieces
    new.shards[#new.shards + 1] = shard
  end
  new.inputs, new.held = ffi.new 'rg_step_inputs', {}
  new.param, new.grad = ffi.new('rg_tensor *[?]', n + 1), ffi.new('const rg_tensor *[?]', n + 1)
  new.state = {}
  for k = 1, new.n_states do new.state[k] = ffi.new('rg_tensor *[?]', n + 1) end
  return new
end

-- What is left of an optimizer whose moments were taken: it says so, whatever is asked of it.
local function use_up(optimizer)
  local name = getmetatable(optimizer).__name
  for key in pairs(optimizer) do optimizer[key] = nil end
  setmetatable(optimizer, {
    __index = function()
      blame.raise(('%s: a dist.Sharded was made of it, which has its moments now'):format(name),
        'EARG')
    end,
    __tostring = function() return name .. ' (used up by dist.Sharded)' end,
  })
end

--- An optimizer of which each rank keeps 1/size of the moments and takes 1/size of each step; then
--- all have all parameters. The same bits as the optimizer alone, for gradients that are the same
--- on all ranks, as ridge.dist.DataParallel makes them. `state` gives the moments of all, and
--- `load_state` takes them, so a state goes on over another number of ranks; all ranks call these
--- together, as they do `step`.
---
--- The optimizer that is given is used up: its moments become the parts. Parameters are not
--- replaced behind it.
---@param optimizer table of ridge.optim, the same on all ranks
-- >> net = ridge.nn.Linear(3, 2)
-- >> ridge.dist.Sharded(ridge.optim.AdamW(net)):bytes()
function Sharded:init(optimizer)
  self.world = worlds.here()
  check(self.world, optimizer)
  worlds.agree(self.world, WHAT, lines_of(optimizer))
  self.kind, self.spec = getmetatable(optimizer).__name, optimizer.spec
  self.step_of, self.after = optimizer.step_of, optimizer.after
  self.groups, self.replaced = {}, mode.replaced
  for g, group in ipairs(optimizer.groups) do self.groups[g] = part(self, group) end
  use_up(optimizer)
end

-- Others' views of parameters that are gone would be stepped in vain.
function Sharded:look_again()
  if self.replaced == mode.replaced then return self end
  for _, group in ipairs(self.groups) do
    for _, place in ipairs(group.where) do
      local x, found = place.module and mode.held(place), not place.module
      for _, p in ipairs(x and group.params or {}) do found = found or p._t._data == x._t._data end
      if not found then
        blame.raise(('%s: %s was replaced: make the optimizer behind that'):format(WHAT,
          place.name or 'a parameter'), 'EARG')
      end
    end
  end
  self.replaced = mode.replaced
  return self
end

-- -- Stepping -----------------------------------------------------------------------------------

-- Pieces that have a gradient, side by side: how many, and whether any parameter has one.
local function gather(group)
  local n, grads, any = 0, {}, false
  for i, p in ipairs(group.params) do
    local g = p.grad
    any = any or g ~= nil
    grads[i] = g and flat(g:contiguous()) or false
  end
  for _, shard in ipairs(group.shards) do
    for _, piece in ipairs(shard.pieces) do
      if grads[piece.i] then
        local g = grads[piece.i]:narrow(1, piece.from + 1, piece.n)
        group.held[n + 1] = g
        group.param[n], group.grad[n] = piece.param._t, g._t
        for k, state in ipairs(piece.state) do group.state[k][n] = state._t end
        n = n + 1
      end
    end
  end
  return n, any
end

local function step_group(self, group, scale)
  local n, any = gather(group)
  local place, inputs = group.places[1], group.inputs
  if n > 0 then
    inputs.n, inputs.param, inputs.grad = n, group.param, group.grad
    for k = 1, group.n_states do inputs.state[k - 1] = group.state[k] end
    inputs.rate, inputs.count, inputs.scale = place.rate._t, place.count._t, scale and scale._t
    local status = self.step_of(inputs, group.core)
    for i = 1, n do group.held[i] = nil end
    call.check(status, WHAT)
  elseif any and (not scale or math.abs(scale:item()) < math.huge) then
    place.count:copy_(place.count + 1) -- the others have taken one
  end
  for _, shard in ipairs(group.shards) do
    local mine, whole = {}, {}
    for i, piece in ipairs(shard.pieces) do mine[i] = piece.param end
    for k, i in ipairs(shard.index) do whole[k] = flat(group.params[i]) end
    if any and self.world.size > 1 then spread(self, shard, mine, whole, false) end
  end
end

local STEP = { scale = { 'any', doc = 'a tensor of one number' } }

local function take_step(self, opts)
  opts = opts and options.check(STEP, opts, WHAT .. ':step') or {}
  if opts.scale ~= nil then ref.need(opts.scale, WHAT) end
  self:look_again()
  call.settle()
  for _, group in ipairs(self.groups) do step_group(self, group, opts.scale) end
  if self.after then
    for _, f in pairs(self.after) do f() end
  end
  return self
end

--- Take a step with the accumulated gradients; all ranks together.
---@param opts table|nil {scale = Tensor}, as of other optimizers
---@return table self
function Sharded:step(opts) return ranges.section('optimizer_step', take_step, self, opts) end

-- -- State --------------------------------------------------------------------------------------

--- What a step depends on beside the parameters, of all ranks; all of them call it.
---@return table tensors name to tensor, as the optimizer alone gives them
function Sharded:state()
  self:look_again()
  local out = {}
  for g, group in ipairs(self.groups) do
    out[g .. '.rate'], out[g .. '.count'] = group.places[1].rate, group.places[1].count
    out[g .. '.base'] = make.full(group.base, { dtype = 'f64' })
    for _, shard in ipairs(group.shards) do
      for k = 1, group.n_states do
        local mine, whole = {}, {}
        for i, piece in ipairs(shard.pieces) do mine[i] = piece.state[k] end
        for place, i in ipairs(shard.index) do
          local p = group.params[i]
          local x = make.zeros(p:size(), { dtype = p.dtype == 'f64' and 'f64' or 'f32' })
          out[('%d.%d.%d'):format(g, k, i)], whole[place] = x, flat(x)
        end
        spread(self, shard, mine, whole, true)
      end
    end
  end
  return out
end

--- Take the state of an optimizer of the same kind, sharded over any number of ranks or not; all
--- ranks take the same.
---@param tensors table name to tensor, as `state` gives them
---@return table self
function Sharded:load_state(tensors)
  Optimizer.load_state(self, tensors)
  for g, group in ipairs(self.groups) do
    for _, shard in ipairs(group.shards) do
      for _, piece in ipairs(shard.pieces) do
        for k, state in ipairs(piece.state) do
          state:copy_(tensors[('%d.%d.%d'):format(g, k, piece.i)]:contiguous():view(-1)
            :narrow(1, piece.from + 1, piece.n))
        end
      end
    end
  end
  return self
end

--- Bytes of moments that this rank keeps.
---@return number
function Sharded:bytes()
  local n = 0
  for _, group in ipairs(self.groups) do
    for _, shard in ipairs(group.shards) do
      for _, piece in ipairs(shard.pieces) do
        for _, state in ipairs(piece.state) do n = n + state.bytes end
      end
    end
  end
  return n
end

function Sharded:__tostring()
  return ('%s(%s, %d bytes on rank %d of %d)'):format(WHAT, self.kind, self:bytes(),
    self.world.rank, self.world.size)
end

M.Sharded = Sharded

return M
