-- SPDX-License-Identifier: MIT
--- Whose run it is that is advised: a trainer, a net with an input, or what a function has used
--- while it ran. Of each the same is known, or why it is not.

local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local dtypes = require 'ridge.tensor.dtype'
local grad = require 'ridge.tensor.grad'
local losses = require 'ridge.nn.loss'
local memory = require 'ridge.memory'
local profile = require 'ridge.profile'
local ranges = require 'ridge.ranges'
local ref = require 'ridge.ffi.ref'
local state = require 'ridge.state'
local step = require 'ridge.analyze.step'

local M = {}

local MOST = 10000 -- losses of a loop of one's own that are kept

local function rows_of(args)
  local rows
  step.each_tensor({ unpack(args, 1, args.n) }, function(x)
    rows = rows or x.ndim > 0 and x:size(1) or nil
  end)
  return rows
end

-- What is the same in all forms: rows of a batch, the device.
local function finished(s)
  if s.net then
    local first = s.net:parameters()[1]
    s.device = first and first.tensor.device or 'cpu'
    s.rows = s.args and rows_of(s.args)
    s.name = getmetatable(s.net).__name
  end
  s.device = s.device or 'cpu'
  s.losses = s.losses or {}
  for _, loss in ipairs(s.losses) do s.is_lost = s.is_lost or loss - loss ~= 0 end
  return s
end

-- -- A trainer ----------------------------------------------------------------------------------

-- The first batch of a loader, whose order stays where it was.
local function first_batch(loader)
  local before = loader.state and loader:state()
  local x, y = loader:each()()
  if before and loader.load_state then loader:load_state(before) end
  return x, y
end

local function curve_of(trainer)
  local list = {}
  for i, row in ipairs(trainer.curve) do list[i] = row.loss end
  return list
end

local function add_trainer(s, trainer)
  local o = trainer.options
  s.trainer, s.net, s.optimizer, s.target_loss = trainer, trainer.model, trainer.optimizer,
    trainer.loss
  s.autocast, s.scaler, s.compile, s.clip = o.autocast, o.scaler, o.compile or false, o.clip
  s.accumulate, s.schedule, s.loader = o.accumulate, o.schedule, s.loader or trainer.loader
  s.losses = curve_of(trainer)
  if trainer.lost then s.losses[#s.losses + 1] = 0 / 0 end -- it ended there, and has no row of it
end

local function with_batch(s, x, y)
  local trainer = s.trainer
  trainer.batch:place()
  s.args, s.y = { n = 1, trainer.batch:here(x) }, trainer.batch:here(y)
  s.loss = function(out, y_) return (losses.with_total(s.target_loss, out, y_)) end
end

--- Of a trainer.
---@param trainer table
---@param data table|nil a loader, or tensors {x, y}; those of its last fit when left out
---@return table subject
function M.of_trainer(trainer, data)
  local s = { what = 'the trainer' }
  local x, y
  if data ~= nil and type(data) == 'table' and ref.is(data[1]) and ref.is(data[2]) then
    x, y = data[1], data[2]
  elseif data ~= nil and not (type(data) == 'table' and type(data.each) == 'function') then
    blame.raise(('advise: a loader or tensors {x, y} are expected behind the trainer, got %s')
      :format(blame.show(data)), 'EARG')
  end
  s.loader = not x and data or nil
  add_trainer(s, trainer)
  if not x and not s.loader then
    blame.raise('advise: the trainer has not fitted yet: give a loader, or tensors {x, y}, behind '
      .. 'it', 'EARG')
  end
  if not x then x, y = first_batch(s.loader) end
  if not ref.is(x) or not ref.is(y) then
    blame.raise('advise: a loader gives batches of inputs and targets', 'EARG')
  end
  with_batch(s, x, y)
  return finished(s)
end

-- -- A net and an input -------------------------------------------------------------------------

--- Of a net.
---@param net table module
---@param x Tensor
---@param opt table target, loss, optimizer, loader, autocast
---@return table subject
function M.of_net(net, x, opt)
  local s = { what = 'the net', net = net, args = { n = 1, x }, y = opt.target,
    optimizer = opt.optimizer, loader = opt.loader, autocast = opt.autocast, scaler = opt.scaler,
    compile = false }
  s.loss = opt.loss or s.y and losses.cross_entropy
  if s.loader and type(s.loader.each) ~= 'function' then
    blame.raise('advise: loader is one of ridge.data, got ' .. blame.show(opt.loader), 'EARG')
  end
  return finished(s)
end

-- -- What a function uses -----------------------------------------------------------------------

-- Copies of the tensors in a value; tables are copied.
local function kept(value)
  if ref.is(value) then return memory.keep(value:detach():clone()) end
  if type(value) ~= 'table' or getmetatable(value) then return value end
  local out = {}
  for key, inner in pairs(value) do out[key] = kept(inner) end
  return out
end

-- The name of the type that products are computed in now, where that is not their inputs'.
local function autocast_now()
  local code = C.rg_autocast()
  if code == C.RG_BF16 then return 'bf16' elseif code == C.RG_F16 then return 'f16' end
end

-- What is met while a function runs; `heard` and `met` are told of it.
local function witness()
  local w = { nets = {}, order = {}, losses = {}, rates = {}, loaders = {}, trainers = {} }
  function w.heard(_, module, ...)
    if not module or not module.training or not ranges.is_outermost() then return end
    local seen = w.nets[module]
    if not seen then
      seen = { net = module, calls = 0, params = module:num_parameters() }
      w.nets[module] = seen
      w.order[#w.order + 1] = seen
    end
    seen.calls = seen.calls + 1
    if not seen.args and C.rg_capturing() == 0 then
      seen.args = grad.no_grad(kept, { n = select('#', ...), ... })
      seen.autocast = autocast_now()
    end
  end
  local MET = {}
  function MET.fit(_, trainer) w.trainers[#w.trainers + 1] = trainer end
  function MET.data_loading(_, loader) w.loaders[#w.loaders + 1] = loader end
  function MET.loss_computation(_, loss, _, y)
    if w.y or C.rg_capturing() ~= 0 then return end
    w.y, w.target_loss = grad.no_grad(kept, y), loss
  end
  function MET.loss(f, output, y, opts) -- of a loop of one's own: the first one behind its net
    if w.own_loss or #w.order == 0 or C.rg_capturing() ~= 0 or not output.requires_grad then
      return
    end
    w.own_loss = { f = f, y = grad.no_grad(kept, y), opts = opts, rows = output:size(1) }
  end
  function MET.backward(_, loss)
    if #w.losses < MOST and ref.is(loss) and loss.count == 1 and C.rg_capturing() == 0 then
      w.losses[#w.losses + 1] = loss.device == 'cpu' and loss:item()
        or memory.keep(loss:detach():clone())
    end
  end
  function MET.optimizer_step(_, optimizer)
    w.optimizer = optimizer
    w.rates[#w.rates + 1] = optimizer:lr()
  end
  function w.met(name, ...)
    if MET[name] then MET[name](...) end
  end
  return w
end

local function most(list, of)
  local best
  for _, each in ipairs(list) do
    if not best or of(each) > of(best) then best = each end
  end
  return best
end

-- The loader that gave most batches.
local function busiest(loaders)
  local n, order = {}, {}
  for _, loader in ipairs(loaders) do
    if not n[loader] then order[#order + 1] = loader end
    n[loader] = (n[loader] or 0) + 1
  end
  return most(order, function(loader) return n[loader] end)
end

local function from_witness(w)
  local s = { what = 'what ran', others = math.max(0, #w.order - 1) }
  local trainer = w.trainers[#w.trainers]
  local seen = trainer and w.nets[trainer.model]
    or most(w.order, function(each) return each.params end)
  if trainer then
    add_trainer(s, trainer)
  else
    s.optimizer, s.loader = w.optimizer, busiest(w.loaders)
    s.losses, s.rates = {}, w.rates
    for i, loss in ipairs(w.losses) do s.losses[i] = ref.is(loss) and loss:item() or loss end
  end
  if not seen then return finished(s) end
  s.net, s.args = seen.net, seen.args
  s.autocast = s.autocast or seen.autocast
  if trainer and w.y then
    with_batch(s, seen.args[1], w.y)
  elseif not trainer and w.own_loss and w.own_loss.rows == rows_of(s.args or { n = 0 }) then
    local own = w.own_loss
    s.y = own.y
    s.loss = function(out, y) return own.f(out, y, own.opts) end
  end
  return finished(s)
end

--- Of what a function uses while it is profiled. What it raises is raised; where it was
--- interrupted, or raised behind a loss that is not finite, what was met until then is taken.
---@param f function
---@param opt table options of ridge.profile
---@return table subject with profile
function M.of_run(f, opt)
  local w = witness()
  local ok, err = pcall(profile.profile, function()
    return state.with(ranges.HEARD, { value = w.heard }, state.with, ranges.MET, { value = w.met },
      f)
  end, opt)
  local s = (ok or #w.order > 0) and from_witness(w) or nil
  if not ok and not (blame.is_error(err) and err.code == 'EINTR') then
    if not (s and s.is_lost) then error(err, 0) end
    s.raised = tostring(blame.is_error(err) and err.message or err)
  end
  s = s or from_witness(w)
  s.profile = ok and err or profile.last()
  return s
end

--- The dtype that a net computes in.
---@param s table
---@return string|nil
function M.dtype(s)
  for _, p in ipairs(s.net and s.net:parameters() or {}) do
    if dtypes.kind[p.tensor.dtype] == 'float' then return p.tensor.dtype end
  end
end

return M
