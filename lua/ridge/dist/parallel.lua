-- SPDX-License-Identifier: MIT
--- Data parallel over processes: each rank has the whole net and a part of each batch.
--
-- A rank's gradients are means over its own rows. They are averaged with the rows as weights, which
-- is the gradient of the whole batch, however uneven its parts are. One that was averaged before
-- and is added to (accumulation) may be averaged again: it was the same everywhere.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local class = require 'ridge.class'
local leaves = require 'ridge.tensor.leaf_hooks'
local options = require 'ridge.options'
local ref = require 'ridge.ffi.ref'
local backward = require 'ridge.tensor.backward'
local batch_norm = require 'ridge.dist.batch_norm'
local Buckets = require 'ridge.dist.buckets'
local Module = require 'ridge.nn.module'
local random = require 'ridge.random'
local same = require 'ridge.dist.same'
local worlds = require 'ridge.world'

local M = {}

local WHAT = 'dist.DataParallel'

local Parallel = class.class(WHAT, Module)

local SPEC = {
  bucket_mb = { 'number', default = 25, min = 1e-6, max = 1e6,
    doc = 'gradients that are sent together, in MB of f32' },
  overlap = { 'boolean', default = true,
    doc = 'send while the rest of the backward pass runs; else behind it' },
  compress = { 'string', default = 'none', choices = { 'none', 'bf16', 'f16' },
    doc = 'type that gradients are sent in' },
  sync_batch_norm = { 'boolean', default = false,
    doc = 'batch normalisation by the mean and variance of the rows of all ranks' },
}

-- Numbers of rank 0 become everybody's.
local function from_first(world, x)
  local whole = x:detach():contiguous()
  local copy = whole:clone()
  worlds.run(world, WHAT, { kind = C.RG_GROUP_BROADCAST, dtype = x._t._dtype, count = x._t._count,
    device = x._t._device, ['in'] = whole._t._data, out = copy._t._data }, whole, copy)
  if world.rank > 0 then x:detach():copy_(copy) end
end

-- Is it shared out already, or a part of it?
local function is_shared(module)
  if class.is_a(module, Parallel) then return true end
  for _, each in ipairs(module.children) do
    if is_shared(each.module) then return true end
  end
  return false
end

local function check(world, module)
  if not class.is_a(module, Module) then
    blame.raise(('%s: a module is expected, got %s'):format(WHAT, blame.show(module)), 'EARG')
  elseif is_shared(module) then
    blame.raise(WHAT .. ': a dist.DataParallel is in the module, and one of the whole does it all',
      'EARG')
  end
  local list, trained = module:parameters(), {}
  for _, p in ipairs(list) do
    worlds.reach(world, WHAT, p.tensor)
    if p.tensor._t._device ~= list[1].tensor._t._device then
      blame.raise(('%s: a rank has all parameters on one device, and %s is on %s, %s on %s'):format(
        WHAT, list[1].name, list[1].tensor.device, p.name, p.tensor.device), 'EDEVICE')
    end
    if p.tensor.requires_grad then trained[#trained + 1] = p end
  end
  return list, trained
end

local function complete(self, p)
  if self.hold then return end
  if not self.rows then
    blame.raise(WHAT .. ': the module was called by itself, so nobody knows of how many rows its '
      .. 'gradient is the mean: call what ridge.dist.DataParallel gave', 'EARG')
  end
  self.told = true
  if self.buckets then
    self.buckets:complete(p, self.rows)
  elseif not self.seen[p] then
    self.seen[p] = true
    self.order[#self.order + 1] = p
  end
end

local function id(x) return tonumber(ffi.cast('intptr_t', x._t)) end

-- A gradient that is averaged with nobody's would be another one on each rank, and so would what is
-- trained with it: of a module that was added since, of one that was frozen, of another tensor.
local function check_known(known, module)
  for _, p in ipairs(module.params) do
    local x = p.tensor
    if C.rg_requires_grad(x._t) == 1 and not known[id(x)] then
      blame.raise(('%s: parameter %s of %s is none that it averages the gradients of: those were '
        .. 'trained when it was made; make another dist.DataParallel of the changed module'):format(
        WHAT, p.name, getmetatable(module).__name), 'EARG')
    end
  end
  for _, each in ipairs(module.children) do check_known(known, each.module) end
end

-- The order of rank 0's first pass, and behind it what that did not reach.
local function settle(self)
  local n = #self.trained
  local place, numbers = {}, {}
  for i, p in ipairs(self.trained) do place[p] = i end
  for i, p in ipairs(self.order) do numbers[i] = place[p] end
  for i, p in ipairs(self.trained) do
    if not self.seen[p] then numbers[#numbers + 1] = i end
  end
  numbers = worlds.first(self.world, WHAT, numbers)
  local list = {}
  for i = 1, n do list[i] = self.trained[numbers[i]] end
  self.buckets = Buckets(self.world, list, self.opts)
end

-- Nets that were called, until the backward pass behind it has ended. One that its caller does not
-- keep would be collected before at another moment on each rank, and its gradients be averaged by
-- the others alone.
local awaited = {} -- luacheck: ignore 241 (it holds them, and nobody reads it)

local function finish(self, ended)
  awaited[self] = nil
  self.told = false
  if not ended then return self.buckets and self.buckets:drop() end
  if not self.buckets then settle(self) end
  self.buckets:finish(self.rows)
  worlds.stepped(self.world)
end

-- The net that averages the gradient of a parameter. Of two that did, each would send it, and when
-- the older one is collected is another moment on each rank.
local nets = setmetatable({}, { __mode = 'kv' })

-- Its parameters are another net's now.
local function retire(self)
  for _, hook in ipairs(self.hooks) do hook:remove() end
  self.hooks, self.retired, self.told = {}, true, false
  awaited[self] = nil
end

-- Be told of each gradient, and of the end of each pass that had one; for as long as the net lives.
local function watch(self)
  local weak = setmetatable({ self }, { __mode = 'v' })
  for i, p in ipairs(self.trained) do
    local older = nets[p.tensor]
    if older and not older.retired then retire(older) end
    nets[p.tensor] = self
    self.hooks[i] = leaves.add(p.tensor, function() -- holds no tensor, which would hold itself
      local net = weak[1]
      if net then complete(net, net.trained[i]) end
    end, backward.number, true)
  end
  leaves.behind(self, function(ended)
    local net = weak[1]
    if net and net.told then finish(net, ended) end
  end)
end

--- A module that is trained by all ranks of the world together: parameters and running statistics
--- are those of rank 0 from the start, and behind each backward pass `.grad` of every parameter is
--- that of the whole batch, with the same bits on all ranks. So an optimizer takes the same step
--- everywhere. A parameter without a gradient on some ranks counts as zero there.
---
--- Behind the first pass gradients lie in the memory that is sent, also those of later passes: what
--- is kept of `.grad` over a zero_grad changes with the next pass, so keep a clone. From a
--- parameter's last hook (on_gradient) to the end of the pass its gradient is on its way: leave it
--- alone until then, or switch overlap off.
---
--- A batch is what the module is called with, its rows those of the first tensor along axis 1, also
--- of one in a table; the loss is their mean. So it is what this returns that is called, not the
--- module, in training mode or not. Ranks may have different numbers of rows, also none; all run
--- the same number of backward passes. Each rank's rows are normalised by themselves
--- (nn.BatchNorm), and running statistics are those of rank 0; with sync_batch_norm both are of the
--- rows of all ranks. Other ranks' default random stream goes on from another seed, so that dropout
--- draws differ.
---
--- Convert and freeze parameters before: one that is trained later is refused, as is one of a
--- module that is added. Make the optimizer of this or of the module. A parameter
--- belongs to the last DataParallel that was made of it, and an older one is not trained any more.
---@param module table the same on all ranks: else the first difference is an error
---@param opts table|nil {bucket_mb = 25, overlap = true, compress = 'none',
---  sync_batch_norm = false}
-- >> ridge.dist.DataParallel(ridge.nn.Linear(3, 2))(ridge.ones(4, 3)).shape
function Parallel:init(module, opts)
  Module.init(self)
  opts = options.check(SPEC, opts, WHAT)
  local world = worlds.here()
  local list, trained = check(world, module)
  local lines = same.lines(list)
  for _, name in ipairs { 'bucket_mb', 'overlap', 'compress', 'sync_batch_norm' } do
    lines[#lines + 1] = ('option %s is %s'):format(name, tostring(opts[name]))
  end
  for i, p in ipairs(trained) do
    lines[#lines + 1] = ('trained parameter %d is %s'):format(i, p.name)
  end
  worlds.agree(world, WHAT, lines)
  self.module = self:child('module', module)
  self.world, self.opts, self.trained, self.running = world, opts, trained, {}
  local together = opts.sync_batch_norm and world.size > 1 and batch_norm.join(self, module) or {}
  for _, p in ipairs(list) do
    from_first(world, p.tensor)
    if not p.trainable and not together[p.tensor] then
      self.running[#self.running + 1] = p.tensor
    end
  end
  if world.rank > 0 then
    local default = random.default()
    default:seed((default:seed() + world.rank * 0x9e3779b1) % 2 ^ 53)
  end
  self.order, self.seen, self.rows, self.told, self.hooks = {}, {}, nil, false, {}
  self.known = {} -- the tensors themselves: another one would have the address of one that is gone
  for _, p in ipairs(trained) do self.known[id(p.tensor)] = p.tensor end
  -- for who drives it: weighs, what this rank's gradients count by instead of its rows, and hold,
  -- which leaves them as they are behind a backward pass
  self.weighs, self.hold = nil, false
  watch(self)
end

--- How many buckets there are, and parameters and bytes in each, in the order in which they are
--- sent; none before the first backward pass. copied: bytes of gradients that did not lie in the
--- bucket and were copied there, of all passes: those of the first pass, which the buckets are made
--- behind, and of what no call of the backward pass could write there.
---@return table list of {parameters = names, bytes =, copied =}
function Parallel:bucket_list()
  local list = {}
  for i, bucket in ipairs(self.buckets or {}) do
    local names = {}
    for k, p in ipairs(bucket.list) do names[k] = p.name end
    list[i] = { parameters = names, bytes = bucket.bytes, copied = self.buckets:copied(bucket) }
  end
  return list
end

--- Parameters are converted before they are shared out.
---@param name string
function Parallel:to(name) -- luacheck: no self
  blame.raise(("%s: convert the module before: ridge.dist.DataParallel(module:to '%s')"):format(
    WHAT, tostring(name)), 'EARG')
end

local function recording()
  local was = C.rg_grad_mode(0)
  C.rg_grad_mode(was)
  return was ~= 0
end

-- The first tensor of a list; tables are looked into, their names in the order of the alphabet, so
-- that it is the same one on all ranks.
local function first_tensor(list, n, seen)
  if seen[list] then return nil end
  seen[list] = true
  local names = {}
  for name in pairs(list) do
    if type(name) == 'string' then names[#names + 1] = name end
  end
  table.sort(names)
  for i = 1, n + #names do
    local x = list[i <= n and i or names[i - n]]
    if ref.is(x) then
      if x._t ~= nil then return x end
    elseif type(x) == 'table' and getmetatable(x) == nil then
      x = first_tensor(x, #x, seen)
      if x then return x end
    end
  end
end

-- Rows of what the module is called with; without any tensor ranks count alike.
local function rows_of(list, n)
  local x = first_tensor(list, n, {})
  return x and x._t._ndim > 0 and tonumber(x._t._shape[0]) or 1
end

--- What the module gives for this rank's rows.
---@param ... any what the module takes
---@return any what the module returns
function Parallel:forward(...)
  if self.retired and recording() then
    blame.raise(WHAT .. ': a later ridge.dist.DataParallel has parameters of this one, and '
      .. 'averages their gradients: call that', 'EARG')
  end
  if C.rg_capturing() == 0 then
    if recording() then -- else there is no gradient that this is to weigh
      check_known(self.known, self.module)
      self.rows = self.weighs or rows_of({ ... }, select('#', ...))
      awaited[self] = true
    end
    if self.training then M.settle(self) end
  end
  return self.module(...)
end

function Parallel:__tostring()
  return ('dist.DataParallel(rank %d of %d)\n  (module) %s'):format(self.world.rank,
    self.world.size, (tostring(self.module):gsub('\n', '\n  ')))
end

-- -- For who drives such a net (ridge.Trainer) ----------------------------------------------------

--- Lay the buckets out in front of the first backward pass, where none says in which order
--- gradients are complete (net.hold): plans write where they were captured. All ranks together.
---@param net table a DataParallel
function M.prepare(net)
  if net.buckets then return end
  for i = #net.trained, 1, -1 do net.order[#net.order + 1] = net.trained[i] end
  for _, p in ipairs(net.trained) do net.seen[p] = true end
  settle(net)
  net.buckets:receive()
end

--- Average the gradients that there are, where no backward pass has (net.hold).
---@param net table a DataParallel
function M.reduce(net) finish(net, true) end

--- Numbers that each rank keeps by itself while it trains become those of rank 0.
---@param net table a DataParallel
function M.settle(net)
  for _, x in ipairs(net.running) do from_first(net.world, x) end
end

--- Is this such a net?
---@param value any
---@return boolean
function M.is(value) return class.is_a(value, Parallel) end

M.DataParallel = Parallel

return M
