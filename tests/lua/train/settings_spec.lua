-- SPDX-License-Identifier: MIT
--- Every option of layers, optimizers, loaders and trainers: what it refuses, in which words (they
--- name the least and the largest), and what it is when nobody gives it; as approved.

local approved = dofile 'tests/lua/approved.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local ridge = require 'ridge'
local data, nn, optim = ridge.data, ridge.nn, ridge.optim

local function message(f, ...)
  local ok, err = pcall(f, ...)
  if ok then return nil end
  return type(err) == 'table' and err.message or 'CRASHED ' .. tostring(err)
end

local function nothing() end

local function sgd() return optim.SGD({ ridge.zeros(2) }, { lr = 0.5 }) end

local function with(base, name, value)
  local opts = {}
  for key, each in pairs(base) do opts[key] = each end
  opts[name] = value
  return opts
end

-- What is called with options, and those it cannot be without.
local CALLS = {
  { 'Linear', function(o) return nn.Linear(3, 2, o) end },
  { 'LowRankLinear', function(o) return nn.LowRankLinear(3, 2, o) end, { rank = 1 } },
  { 'LowRankLinear.from', function(o) return nn.LowRankLinear.from(nn.Linear(3, 2), o) end,
    { rank = 1 } },
  { 'SKLinear', function(o) return nn.SKLinear(70, 70, o) end },
  { 'SKConv2d', function(o) return nn.SKConv2d(200, 200, 3, o) end },
  { 'SeparableConv2d', function(o) return nn.SeparableConv2d(2, 3, 3, o) end },
  { 'Conv2d', function(o) return nn.Conv2d(2, 4, 3, o) end },
  { 'MaxPool2d', function(o) return nn.MaxPool2d(2, o) end },
  { 'AvgPool2d', function(o) return nn.AvgPool2d(2, o) end },
  { 'BatchNorm', function(o) return nn.BatchNorm(3, o) end },
  { 'LayerNorm', function(o) return nn.LayerNorm(3, o) end },
  { 'RMSNorm', function(o) return nn.RMSNorm(3, o) end },
  { 'GroupNorm', function(o) return nn.GroupNorm(2, 4, o) end },
  { 'Embedding', function(o) return nn.Embedding(3, 2, o) end },
  { 'Dropout', function(o) return nn.Dropout(o) end },
  { 'ReLU', function(o) return nn.ReLU(o) end },
  { 'MultiHeadAttention', function(o) return nn.MultiHeadAttention(4, o) end },
  { 'TransformerBlock', function(o) return nn.TransformerBlock(4, o) end },
  { 'attention', function(o)
    return nn.attention(ridge.ones(2, 3), ridge.ones(2, 3), ridge.ones(2, 3), o)
  end },
  { 'feature_attention', function(o)
    local x = ridge.ones(2, 3)
    return nn.feature_attention(x, x, x, nn.random_features(4, 3, 1), o)
  end },
  { 'LSTM', function(o) return nn.LSTM(3, 2, o) end },
  { 'GRU', function(o) return nn.GRU(3, 2, o) end },
  { 'DataParallel', function(o) return nn.DataParallel(nn.Linear(3, 2), o) end,
    { devices = { 'cpu' } } },
  { 'CrossEntropyLoss', function(o) return nn.CrossEntropyLoss(o) end },
  { 'BCEWithLogitsLoss', function(o) return nn.BCEWithLogitsLoss(o) end },
  { 'MSELoss', function(o) return nn.MSELoss(o) end },
  { 'L1Loss', function(o) return nn.L1Loss(o) end },
  { 'HuberLoss', function(o) return nn.HuberLoss(o) end },
  { 'distillation_loss', function(o)
    local x = ridge.zeros(1, 3)
    return nn.distillation_loss(x, x, ridge.zeros(1):to 'i64', o)
  end },
  { 'SGD', function(o) return optim.SGD({ ridge.zeros(2) }, o) end },
  { 'Adam', function(o) return optim.Adam({ ridge.zeros(2) }, o) end },
  { 'AdamW', function(o) return optim.AdamW({ ridge.zeros(2) }, o) end },
  { 'Lion', function(o) return optim.Lion({ ridge.zeros(2) }, o) end },
  { 'SGD:step', function(o) return sgd():step(o) end },
  { 'SGD:zero_grad', function(o) return sgd():zero_grad(o) end },
  { 'Clip', function(o) return optim.Clip(o) end },
  { 'Guard', function(o) return optim.Guard(o) end },
  { 'GradScaler', function(o) return optim.GradScaler(o) end },
  { 'GradScaler:step', function(o) return optim.GradScaler():step(sgd(), o) end },
  { 'StepLR', function(o) return optim.StepLR(sgd(), o) end, { every = 2 } },
  { 'CosineLR', function(o) return optim.CosineLR(sgd(), o) end, { steps = 5 } },
  { 'OneCycleLR', function(o) return optim.OneCycleLR(sgd(), o) end, { steps = 5 } },
  { 'PlateauLR', function(o) return optim.PlateauLR(sgd(), o) end },
  { 'Loader', function(o) return data.Loader({ ridge.zeros(40, 2) }, o) end, { seed = 1 } },
  { 'segments', function(o) return data.segments(1, o) end },
  { 'csv', function(o) return data.csv('/dev/null/none', o) end },
  { 'rows', function(o) return data.rows('/dev/null/none', o) end, { shape = { 2 } } },
  { 'Stability', function(o) return ridge.Stability(sgd(), o) end },
  { 'Trainer', function(o) return ridge.Trainer(nn.Linear(3, 2, { seed = 1 }), o) end,
    { lr = 0.5, say = nothing } },
  { 'Trainer debug', function(o)
    return ridge.Trainer(nn.Linear(3, 2, { seed = 1 }), { lr = 0.5, say = nothing, debug = o })
  end },
  { 'Trainer:fit', function(o)
    local trainer = ridge.Trainer(nn.Linear(3, 2, { seed = 1 }), { lr = 0.5, say = nothing })
    return trainer:fit({ ridge.zeros(2, 3), ridge.zeros(2):to 'i64' }, o)
  end, { epochs = 1 } },
  { 'level', function(o) return ridge.level(nn.Linear(3, 2), 'custom', o, nothing) end },
}

-- The names of all options, as the refusal of one that there is not tells them.
local function names_of(call)
  local said = message(call[2], with(call[3] or {}, 'zork', 1)) or 'nothing said'
  local names = {}
  for name in (said:match 'known: (.*)$' or ''):gmatch '[%w_]+' do names[#names + 1] = name end
  assert.is_true(#names > 0, call[1] .. ': ' .. said)
  return names
end

-- What a state is taken from: refused as it stands, but its fields are told. Those whose state is
-- a table with a table in it that is looked at, too.
local STATES = {
  { 'Trainer:load_state', function(o)
    ridge.Trainer(nn.Linear(3, 2, { seed = 1 }), { lr = 0.5, say = nothing }):load_state(o)
  end },
  { 'Stability:load_state', function(o) ridge.Stability(sgd()):load_state(o) end },
  { 'Clip:load_state', function(o) optim.Clip():load_state(o) end },
  { 'Guard:load_state', function(o)
    local guard = optim.Guard()
    guard:load_state(with(guard:state(), 'totals', o))
  end },
  { 'GradScaler:load_state', function(o) optim.GradScaler():load_state(o) end },
  { 'StepLR:load_state', function(o) optim.StepLR(sgd(), { every = 2 }):load_state(o) end },
  { 'PlateauLR:load_state', function(o) optim.PlateauLR(sgd()):load_state(o) end },
  { 'Loader:start', function(o) data.Loader({ ridge.zeros(4, 2) }):start(o and o[1]) end },
}

local FIELDS = { 'required', 'default', 'min', 'max', 'nan', 'choices', 'names' }

local function text_of(value)
  if type(value) == 'number' then return ('%.17g'):format(value) end
  if type(value) ~= 'table' then return tostring(value) end
  local list = {}
  for i, each in ipairs(value) do list[i] = tostring(each) end
  return '{' .. table.concat(list, ' ') .. '}'
end

-- Rules of options as a line each: kinds, whether one is needed, what it is by itself, its range.
local function rules_of(spec)
  local names, text = {}, ''
  for name in pairs(spec) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    text = text .. ('\n  %s: %s'):format(name, spec[name][1])
    for _, field in ipairs(FIELDS) do
      local value = spec[name][field]
      if value ~= nil then text = text .. (', %s %s'):format(field, text_of(value)) end
    end
  end
  return text
end

-- LuaJIT 2.1 of Debian 12, compiling this loop, leaves fields out (see ridge.options).
jit.off(rules_of, true)

describe('settings', function()
  it('refuse what they cannot be in the words that were approved', function()
    local out, folder = {}, folders.new() -- one that is asked for is made, so none in the checkout
    finally(function() folders.remove(folder) end)
    for _, call in ipairs(CALLS) do
      for _, name in ipairs(names_of(call)) do
        local told = {} -- what is expected is told once
        local word = (name == 'folder' or name == 'output_dir') and folder or 'zork'
        for _, value in ipairs { -7, -1e308, 1e308, word, true } do
          local said = message(call[2], with(call[3] or {}, name, value))
          local wish = said and (said:match '; (expected .*)$' or said:match '; (it .*)$' or said)
          if said and not told[wish] then
            told[wish] = true
            out[#out + 1] = ('%s %s = %s: %s'):format(call[1], name, tostring(value), said)
          end
        end
      end
      for name in pairs(call[3] or {}) do
        local said = message(call[2], with(call[3], name, nil))
        if said then out[#out + 1] = ('%s without %s: %s'):format(call[1], name, said) end
      end
    end
    approved.check('train/settings', (table.concat(out, '\n'):gsub('_spec.lua:%d+', '_spec.lua')))
  end)

  it('have the rules that were approved', function()
    local options = require 'ridge.options'
    local check, told, out = options.check, {}, {}
    finally(function() options.check = check end)
    function options.check(spec, given, what)
      local text = what .. rules_of(spec)
      -- of layers, optimizers, loaders and trainers, not of the tensors that they make
      if not (spec.dtype and spec.pinned) and not told[text] then
        told[text] = true
        out[#out + 1] = text
      end
      return check(spec, given, what)
    end
    for _, list in ipairs { CALLS, STATES } do
      for _, call in ipairs(list) do pcall(call[2], call[3] or {}) end
    end
    options.check = check
    table.sort(out)
    approved.check('train/rules', table.concat(out, '\n'))
  end)

  -- The least and the largest value are each allowed, as the sentences promise.
  it('take the ends of their ranges', function()
    local n = 0
    for _, call in ipairs(CALLS) do
      for _, name in ipairs(names_of(call)) do
        local said = message(call[2], with(call[3] or {}, name, -7)) or ''
        local least, most = said:match 'lies between (%S+) and (%S+)$'
        for _, word in ipairs { least or 'inf', most or 'inf' } do
          local value = tonumber(word)
          -- not 2^-100, of which the sentence has 14 digits
          if value and math.abs(value) < 300 and not word:find 'e%-31' then
            local again = message(call[2], with(call[3] or {}, name, value)) or ''
            assert.is_nil(again:match('option ' .. name .. ' is'), call[1] .. ': ' .. again)
            n = n + 1
          end
        end
      end
    end
    assert.is_true(n > 60, n)
  end)

  it('are by themselves what was approved', function()
    local out = {}
    local function list(title, fields, skip)
      local names = {}
      for key, value in pairs(fields) do
        local kind = type(value)
        if (kind == 'number' or kind == 'string' or kind == 'boolean') and not (skip
            or {})[key] then
          names[#names + 1] = ('%s = %s'):format(tostring(key), kind == 'number'
            and ('%.15g'):format(value) or tostring(value))
        end
      end
      table.sort(names)
      out[#out + 1] = title .. ': ' .. table.concat(names, ', ')
    end
    for _, call in ipairs(CALLS) do
      local _, made = pcall(call[2], call[3])
      if type(made) ~= 'table' or ridge.is_tensor and ridge.is_tensor(made) then made = nil end
      if made and type(made.groups) == 'table' and made.groups[1].options then
        list(call[1], made.groups[1].options)
        list('  betas', made.groups[1].options.betas or {})
      elseif made and type(made.options) == 'table' then
        list(call[1], made.options, { say = true })
      elseif made and (made.params or made.batch) then
        list(call[1], made, { _wrapped = true, kind = type(made.kind) == 'number' })
        if made.opts then list('  more', made.opts) end
        if made.params then
          local names = {}
          for i, p in ipairs(made:parameters()) do
            names[i] = p.name .. ' ' .. p.tensor:describe() .. (p.trainable and '' or ' fixed')
          end
          out[#out + 1] = '  ' .. table.concat(names, ', ')
        end
      end
    end
    approved.check('train/defaults', table.concat(out, '\n'))
  end)
end)
