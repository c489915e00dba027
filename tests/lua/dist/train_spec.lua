-- SPDX-License-Identifier: MIT
--- Trainers whose ranks train one net: steps, metrics, decisions, checkpoints and refusals on 1, 2
--- and 4 processes. Skipped where MPI is not.

local ridge = require 'ridge'
local ranks = require 'tests.lua.dist.ranks'

local CHILD = 'tests/lua/dist/train_child.lua'
local SAME = { 'mlp', 'lenet', 'block', 'gather', 'plan', 'rows', 'ignored', 'plateau' }

describe('a trainer on ranks', function()
  local folder

  setup(function() folder = ranks.output 'mktemp -d':match '[^\n]+' end)
  teardown(function() os.execute('rm -rf ' .. folder) end)

  local function several(name, f) ranks.several({ it = it, pending = pending }, name, f) end

  local function launch(n, what)
    local text, status = ranks.launch(n, CHILD, what, folder)
    assert.equal(0, status, text)
    return text
  end

  -- Each of n ranks says this once.
  local function all_say(n, text, pattern)
    assert.equal(n, ranks.lines(text, '%] ' .. pattern), text .. '\nwanted: ' .. pattern)
  end

  local function apart(name, n)
    local most, count = 0, 0
    local one = ridge.load(('%s/%s1'):format(folder, name))
    for key, x in pairs(ridge.load(('%s/%s%d'):format(folder, name, n))) do
      count = count + 1
      most = math.max(most, (x:to 'f64' - one[key]:to 'f64'):abs():max():item())
    end
    assert.is_true(count >= 4)
    return most
  end

  -- What the line of a name says: steps, loss, validation loss, accuracy and out of how many, the
  -- last step's loss.
  local function numbers(text, name)
    local line = text:match('%[0%] ' .. name .. ' true  ([^\n]+)')
    assert.is_truthy(line, text)
    local list = {}
    for word in line:gmatch '%S+' do list[#list + 1] = tonumber(word) or word end
    return list
  end

  several('takes the steps of one on the whole batch, and has its metrics', function()
    local one = launch(1, 'steps')
    all_say(1, one, 'plans true true')
    for _, n in ipairs { 2, 4 } do
      local text = launch(n, 'steps')
      for _, name in ipairs(SAME) do
        local line = text:match('%[0%] (' .. name .. ' true  [^\n]+)')
        assert.is_truthy(line, text)
        assert.equal(n, ranks.lines(text, '%] ' .. line:gsub('%p', '%%%0') .. '$'), text)
        assert.is_true(apart(name, n) <= 1e-5, name)
        local mine, theirs = numbers(text, name), numbers(one, name)
        for i, value in ipairs(theirs) do
          if type(value) == 'number' then
            assert.is_true(math.abs(mine[i] - value) <= 1e-5, ('%s: %s and %s'):format(name,
              tostring(mine[i]), tostring(value)))
          else
            assert.equal(value, mine[i])
          end
        end
      end
      all_say(n, text, 'bf16 true')
      all_say(n, text, 'plans true true')
      assert.is_true(apart('bf16', n) <= 0.02)
    end
    assert.equal(100, numbers(one, 'mlp')[1])
    assert.equal(7, numbers(one, 'mlp')[5]) -- rows of validation, each once
    assert.is_true(numbers(one, 'plateau')[8] < 60, one)
  end)

  several('leaves out a step that one rank has spoiled, on all', function()
    local text = launch(2, 'spoiled')
    for _, pattern in ipairs {
      'spoiled guard nan true true true 2 %- 1', 'spoiled guard inf true true true 2 %- 1',
      'spoiled scaler nan true true true 2 512 1', 'spoiled scaler inf true true true 3 1024 1',
      'spoiled nothing inf true true true 2 %- 1',
      'spoiled nothing nan false true true 1 .*the loss of batch 2 in epoch 1 is nan on rank 1$',
    } do
      all_say(2, text, pattern)
    end
  end)

  several('goes on with the same bits; rank 0 alone writes and speaks', function()
    for _, n in ipairs { 1, 2 } do
      local text = launch(n, 'resume')
      all_say(n, text, 'resumed true true true true')
      all_say(n, text, 'found true 2')
      all_say(n, text, 'drawn true')
      all_say(1, text, 'lines [1-9]%d* [3-5] true ' .. tostring(n > 1))
      all_say(n - 1, text, 'lines 0 0 false false')
      local list = ranks.output(('ls %s/resumed%d %s/resumed%d/board'):format(folder, n, folder, n))
      assert.equal(1, ranks.lines(list, '^events'), list)
      assert.equal(3, ranks.lines(list, 'safetensors$'), list)
    end
    local text = launch(2, 'fewer') -- what two have kept, by one and by three
    all_say(2, text, 'fewer true 2')
    all_say(1, launch(1, 'fewer'), 'fewer true 2')
    all_say(3, launch(3, 'fewer'), 'fewer true 2')
  end)

  several('ends on all, for want of patience and by Ctrl-C on one', function()
    local text, status = ranks.launch(2, CHILD, 'ends', folder)
    assert.equal(130, status, text)
    assert.equal(2, ranks.lines(text, '%] patience patience %d+ early'), text)
    assert.equal(2, ranks.lines(text, '%] stopped interrupt 2'), text)
    assert.equal(2, ranks.lines(text, '%] kept true 2'), text)
  end)

  several('refuses what differs or cannot be, on all', function()
    local text = launch(2, 'refused')
    for i, sentence in ipairs {
      'Trainer: ranks differ: on rank 0 option lr is 0.10+1, and on rank 1 option lr is 0.20+1',
      'on rank 0 option clip is not given, and on rank 1 option clip is 1$',
      'on rank 0 option accumulate is 1, and on rank 1 option accumulate is 2$',
      'option stability is { guard = { kind = detect } }, and on rank 1 option stability is',
      'Trainer:fit: ranks differ: on rank 0 option epochs is 1, and on rank 1 option epochs is 2',
      'Trainer:fit: the loader gives all rows to each of 2 ranks: ridge.data.Loader%(data, '
        .. '{ world = world',
      'Trainer:fit: validate: the loader gives all rows',
      'Trainer: split is for one process', 'Trainer: debug is for one process',
      'Trainer: world is what ridge.dist.init gives, got a table',
      'effective_batch_size is 10, which is no multiple of the 8 rows of a batch of 2 ranks',
      'the loader of rank 0 does not say how many batches it has', 'no space left',
      'the loader gave 2 batches and had said 3; other ranks wait$',
    } do
      all_say(2, text, ('refused %d false .*%s'):format(i, sentence))
    end
    all_say(1, text, 'refused 13 false .*Trainer:save: on rank 0: no space left')
    all_say(1, text, 'least 3 true')
    all_say(1, text, 'least 3 0')
    all_say(1, text, 'effective 2 24 3 3 2$') -- lines of an epoch: nothing to say of the rate
    all_say(1, text, 'effective 2 24 3 3 0$')
    all_say(2, text, 'whole 1')
    all_say(1, text, 'whole 1 a step takes 52 rows')
    assert.is_falsy(text:find 'is larger than', text)
  end)
end)
