-- SPDX-License-Identifier: MIT
--- From the options of a training to what it works with: the device, what a level switches, the
--- optimizer, how many batches make a step, the folder.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local class = require 'ridge.class'
local dtype = require 'ridge.tensor.dtype'
local level = require 'ridge.train.level'
local memory = require 'ridge.memory'
local Monitor = require('ridge.monitor').Monitor
local nn = require 'ridge.nn'
local optim = require 'ridge.optim'
local options = require 'ridge.options'
local place = require 'ridge.store.place'
local together = require 'ridge.train.together'

local M = {}

local SWITCHED = 'as ridge.level has it'

local SPEC = {
  optimizer = { 'table', doc = 'one of ridge.optim; Adam at the rate lr when left out' },
  lr = { 'number', min = 0, max = 1e30, doc = 'learning rate of the optimizer that is made' },
  meta_learning_rate = { 'number', min = 0, max = 1e30, doc = 'that of the parameters in meta' },
  meta = { 'string|function',
    doc = 'parameters with a rate of their own: a pattern of their names, or f(name)' },
  loss = { 'function|table', doc = 'of output and target; cross entropy when left out' },
  schedule = { 'table|function',
    doc = 'or f(optimizer): stepped after every step of it, PlateauLR after every epoch' },
  clip = { 'number', min = 1e-30, doc = 'largest norm of all gradients' },
  accumulate = { 'integer', default = 1, min = 1,
    doc = 'batches whose gradients make one step: their mean by rows, or by labels that count' },
  effective_batch_size = { 'integer', min = 1, doc = 'rows that make one step' },
  mini_batch_size = { 'integer', min = 1, doc = 'rows of a batch' },
  batch = { 'integer', min = 1, doc = 'rows of a batch where fit is given tensors' },
  shuffle = { 'boolean', default = true, doc = 'their order, where fit is given tensors' },
  autocast = { 'string', choices = { 'bf16', 'f16' }, doc = 'compute products in' },
  scaler = { 'table', doc = 'a GradScaler, for f16' },
  compile = { 'boolean', doc = 'forward and back of a batch as a plan' },
  workers = { 'integer', min = 0, max = 256, doc = 'threads for a loader that has none' },
  amp = { 'boolean', doc = SWITCHED }, recompute = { 'boolean', doc = SWITCHED },
  memory_format = { 'boolean', doc = SWITCHED }, flash_attention = { 'boolean', doc = SWITCHED },
  device = { 'string', names = { 'cpu', 'auto', 'cuda:0' }, doc = 'where the model is brought' },
  width = { 'integer', min = 1, doc = "of a profile's model" },
  layers = { 'integer', min = 1, doc = "of a profile's model" },
  infer = { 'string', choices = { 'i8' }, doc = 'numbers of the net that t:inference() gives' },
  split = { 'boolean', default = false,
    doc = 'work a batch off in parts when memory does not suffice' },
  level = { 'string', doc = 'basic, advanced, ultra: switches what it names, and says so' },
  stability = { 'table', doc = 'options of ridge.Stability, which then takes the steps' },
  debug = { 'table', doc = 'anomaly, grad_check, memory, synchronize, memory_fraction, profile, '
    .. 'level, max_iterations, timeout, output_dir: what is looked at while it trains' },
  folder = { 'string', doc = 'for checkpoints: last and best; made where it is missing' },
  patience = { 'integer', min = 1, doc = 'epochs without a better loss before it stops' },
  log_every = { 'integer', default = 50, min = 0, doc = 'batches from line to line; 0: none' },
  trim_every = { 'integer', min = 1,
    doc = 'batches after which what is dead is collected and what is cached is given back' },
  world = { 'table', doc = 'of ridge.dist.init: the model is trained by all of its ranks' },
  monitor = { 'table', doc = 'a ridge.monitor, which is told of every epoch' },
  say = { 'function', doc = 'called with each line; print when left out' },
}

--- Rows of a batch, as far as the options say.
---@param o table
---@return number|nil
function M.batch(o) return o.mini_batch_size or o.batch end

-- -- Batches of a step ----------------------------------------------------------------------------

-- How many batches of this size make an effective one.
local function parts_of(effective, mini, ranks)
  local rows = mini * ranks
  if effective % rows ~= 0 then
    blame.raise(('Trainer: effective_batch_size is %d, which is no multiple of the %d rows of a '
      .. 'batch%s'):format(effective, rows, ranks > 1 and (' of %d ranks'):format(ranks) or ''),
      'EARG')
  end
  return effective / rows
end

local function gather(o, opts, ranks)
  local effective = o.effective_batch_size
  if effective and opts.accumulate then
    blame.raise('Trainer: effective_batch_size says how many batches make a step, and so does '
      .. 'accumulate', 'EARG')
  end
  if effective and M.batch(o) then o.accumulate = parts_of(effective, M.batch(o), ranks) end
end

-- -- Levels ---------------------------------------------------------------------------------------

local SWITCHES = { 'amp', 'compile', 'recompute', 'memory_format', 'flash_attention', 'workers',
  'accumulate' }

-- What the user says wins over the level.
local function switch(model, o, opts)
  local given, settled, asked = {}, {}, o.level ~= nil
  for _, name in ipairs(SWITCHES) do
    given[name] = opts[name]
    asked = asked or opts[name] and name ~= 'compile' and name ~= 'workers'
      and name ~= 'accumulate'
  end
  if not asked then return {} end
  if o.autocast then settled.amp = ('products in %s, as given'):format(o.autocast) end
  if o.effective_batch_size then
    settled.accumulate = ('%d rows make one step, as given'):format(o.effective_batch_size)
  end
  local out, report, blocks = level.switch(model, o.level or 'custom', given, o.say, settled)
  for name, value in pairs(out) do o[name] = value end
  if blocks then
    -- on a part of the rows: without recomputing there may be no room for all of them, which is why
    -- it is on; the try is not part of the epoch's peak
    o.weigh = function(x)
      local n = x:size(1)
      local some = x:narrow(1, 1, math.min(n, math.max(2, math.floor(n / 8))))
      o.say(level.weigh(model, blocks, some, o.autocast))
      memory.reset_peak(x.device)
    end
  end
  return report
end

-- -- The optimizer --------------------------------------------------------------------------------

-- Parameters in two groups: those that meta names have a rate of their own.
local function groups_of(model, o)
  local is_meta = o.meta
  if type(is_meta) == 'string' then
    local ok, why = pcall(string.find, '', is_meta)
    if not ok then blame.raise(('Trainer: meta is no pattern: %s'):format(why), 'EARG') end
    is_meta = function(name) return name:find(o.meta) ~= nil end
  end
  local base, meta = {}, {}
  for _, p in ipairs(model:parameters()) do
    local list = is_meta and is_meta(p.name) and meta or base
    if p.trainable then list[#list + 1] = p end
  end
  if is_meta and #meta == 0 then
    blame.raise('Trainer: meta names no parameter of the model', 'EARG')
  end
  local groups = {}
  if #base > 0 then groups[1] = { params = base, lr = o.lr } end
  if #meta > 0 then groups[#groups + 1] = { params = meta, lr = o.meta_learning_rate or o.lr } end
  return groups
end

-- A model that was moved or converted has other parameters than the optimizer was made for.
local function check_optimizer(model, optimizer)
  if not class.is_a(optimizer, optim.Optimizer) then
    blame.raise(('Trainer: an optimizer of ridge.optim is expected, got %s'):format(
      blame.show(optimizer)), 'EARG')
  end
  local own = {}
  for _, p in ipairs(model:parameters()) do own[tostring(p.tensor._t)] = true end
  for _, group in ipairs(optimizer.groups) do
    for _, p in ipairs(group.params) do
      if own[tostring(p._t)] then return end
    end
  end
  blame.raise('Trainer: the optimizer steps no parameter of the model: make it behind the moves '
    .. 'and conversions of the model', 'EARG')
end

local function optimizer_of(model, o)
  if not o.optimizer then
    if not o.lr then
      blame.raise('Trainer: option optimizer is missing: one of ridge.optim, or lr for Adam',
        'EARG')
    end
    if #model:parameters() == 0 then
      blame.raise('Trainer: the model has no parameters to train', 'EARG')
    end
    o.optimizer = optim.Adam(groups_of(model, o), { lr = o.lr })
  else
    check_optimizer(model, o.optimizer)
    if o.meta then
      blame.raise('Trainer: meta is for the optimizer that is made from lr; one of your own takes '
        .. 'groups {params =, lr =}', 'EARG')
    end
    if o.lr and o.lr ~= o.optimizer:lr() then
      blame.raise(('Trainer: lr is %g, and that of the optimizer is %g'):format(o.lr,
        o.optimizer:lr()), 'EARG')
    end
  end
  if o.meta_learning_rate and not o.meta then
    o.say(('meta_learning_rate %g is the rate of no parameter: meta names none'):format(
      o.meta_learning_rate))
  end
  if type(o.schedule) == 'function' then o.schedule = o.schedule(o.optimizer) end
  if o.schedule and type(o.schedule.step) ~= 'function' then
    blame.raise(('Trainer: a schedule of ridge.optim is expected, got %s'):format(
      blame.show(o.schedule)), 'EARG')
  end
end

-- -- All of it ------------------------------------------------------------------------------------

-- Parameters that are where they should be stay the same tensors: an optimizer may have them.
local function bring(model, name)
  local there = ffi.string(C.rg_device_name(dtype.device(name, 'Trainer')))
  for _, p in ipairs(model:parameters()) do
    if p.tensor.device ~= there then return model:to(there) end
  end
end

--- Check the options of a trainer and make what they ask for.
---@param model table a module; a device, recompute and flash_attention change it
---@param opts table
---@return table options with optimizer, loss, say, accumulate; switched: the report of ridge.level
---@return table model the one that is trained: with a world of several ranks a dist.DataParallel
function M.options(model, opts)
  local o = options.check(SPEC, opts, 'Trainer')
  opts = opts or {}
  local world = o.world or together.world(model)
  local ranks = world and world.size or 1
  o.say, o.loss = o.say or print, o.loss or nn.cross_entropy
  if ranks > 1 and world.rank > 0 then -- rank 0 speaks
    o.say, o.monitor = function() end, nil
  end
  if not blame.callable(o.loss) then
    blame.raise('Trainer: the loss is a function of output and target, or a module', 'EARG')
  end
  if o.monitor and not class.is_a(o.monitor, Monitor) then
    blame.raise('Trainer: monitor is what ridge.monitor makes, got ' .. blame.show(o.monitor),
      'EARG')
  end
  if o.stability and (o.scaler or o.clip) then
    blame.raise('Trainer: with stability, clipping is an option of it, and a scaler has its own '
      .. 'way with what is not finite', 'EARG')
  end
  for _, name in ipairs { 'split', 'debug' } do
    if o[name] and ranks > 1 then
      blame.raise(('Trainer: %s is for one process: what it does is not the same on all ranks')
        :format(name), 'EARG')
    end
  end
  gather(o, opts, ranks)
  if o.device then bring(together.bare(model), o.device) end
  model = together.wrap(model, o.world)
  o.switched = switch(model, o, opts)
  optimizer_of(together.bare(model), o)
  if o.width or o.layers then
    o.say('width and layers are of the model, which is made already: they switch nothing here')
  end
  if o.infer then o.say 'infer: trainer:inference(loader) gives the net in 8 bits' end
  if o.folder and ranks == 1 then place.make_folder(o.folder) end
  return o, model
end

local OWN = { say = true, monitor = true, world = true } -- a rank's own

--- Join the other ranks that train a model, where there are some: with the same options.
---@param model table as `options` gives it
---@param o table
---@return table|nil together
function M.join(model, o)
  local others = together.of(model, o.compile)
  if not others then return nil end
  local told = {}
  for name in pairs(SPEC) do
    if not OWN[name] then told[name] = o[name] == nil and 'not given' or o[name] end
  end
  told.lr = o.optimizer:lr()
  if o.optimizer.world then told.optimizer = getmetatable(o.optimizer).__name end -- says its rank
  others:agree('Trainer', told, 'option')
  if o.folder then
    others:first('Trainer', function() place.make_folder(o.folder) end)
  end
  return others
end

-- The threads of a loader, and what came of those it should have.
local function start(trainer, loader)
  local wanted = trainer.options.workers
  if not wanted or trainer.started == loader then return end
  trainer.started = loader
  if type(loader.start) == 'function' then loader:start(wanted) end
  local has = loader.pool and loader.pool.workers or 0
  if has ~= wanted then
    trainer.say(('%d threads load data, as the loader has them, not %d'):format(has, wanted))
  end
end

--- What can only be settled with the loader: threads, and how many of its batches make a step;
--- and a folder that went since the trainer was made, which would be missed behind an epoch.
---@param trainer table
---@param loader table
---@param opts table of fit
function M.fit(trainer, loader, opts)
  local o, others = trainer.options, trainer.together
  if others then
    others:check_loader(loader, 'Trainer:fit')
    if opts.validate then others:check_loader(opts.validate, 'Trainer:fit: validate') end
    others:agree('Trainer:fit', { epochs = opts.epochs, validate = opts.validate ~= nil,
      epoch = trainer.epoch }, 'option')
  end
  local function folder() place.make_folder(o.folder) end
  if o.folder and others then others:first('Trainer:fit', folder) elseif o.folder then folder() end
  start(trainer, loader)
  local rows = tonumber(loader.batch)
  local wanted = M.batch(o)
  if rows and wanted and rows ~= wanted and loader ~= trainer.made then
    if o.mini_batch_size then
      blame.raise(("Trainer:fit: mini_batch_size is %d, and the loader's batches have %d rows")
        :format(wanted, rows), 'EARG')
    end
    trainer.say(('batches of %d rows, as the loader has them, not %d'):format(rows, wanted))
  end
  trainer.mini_batch = rows or wanted
  if o.effective_batch_size then
    if not trainer.mini_batch then
      blame.raise('Trainer:fit: effective_batch_size wants to know the rows of a batch: give '
        .. 'mini_batch_size', 'EARG')
    end
    o.accumulate = parts_of(o.effective_batch_size, trainer.mini_batch,
      others and others.size or 1)
  end
  if others and not trainer.hinted then
    trainer.hinted = true
    local least, most = others:begin(loader)
    if least < most then
      trainer.say(('ranks have %d to %d batches: each takes %d in an epoch'):format(least, most,
        least))
    end
    if trainer.mini_batch and not o.effective_batch_size then -- which is of all ranks
      trainer.say(others:hint(trainer.mini_batch * o.accumulate, o.optimizer:lr()))
    end
  end
end

return M
