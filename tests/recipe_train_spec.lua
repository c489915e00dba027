-- SPDX-License-Identifier: MIT
--- The recipes that train, as a user runs them: what they learn, and what they say of wrong input.

local sqlite = require 'ridge.store.sqlite'

local function run(command)
  local pipe = io.popen(command .. ' 2>&1 </dev/null; echo "status $?"')
  local text = pipe:read '*a'
  pipe:close()
  return tonumber(text:match 'status (%d+)\n$'), text
end

-- The same recipe on the CPU and on the simulated GPU, or nil where that was not built.
local SIMULATED = 'build/libridge_gpusim.so'
local function both(command)
  local file = io.open(SIMULATED)
  if not file then return nil end
  file:close()
  local texts = {}
  for _, device in ipairs { 'cpu', 'sim:0' } do
    local status, text = run(('RIDGE_GPU=%s ./ridge --threads 1 recipes/%s --smoke --device %s')
      :format(SIMULATED, command, device))
    assert.equal(0, status, text)
    texts[#texts + 1] = text
  end
  return unpack(texts)
end

describe('a recipe on a simulated device', function()
  -- what a pattern finds in both is nearly one number
  local function agrees(pattern, within, here, there)
    local a, b = here:match(pattern), there:match(pattern)
    assert.is_true(a and b and math.abs(a - b) <= within, here .. there)
  end

  it('trains as on the CPU', function()
    local here, there = both 'train_mlp.lua --epochs 1'
    if not here then return pending 'no nvcc: the simulated GPU was not built' end
    agrees('epoch 1/1  loss (%S+)', 2e-4, here, there)
    agrees('epoch 1/1  loss %S+  test (%S+)', 2e-4, here, there)
    here, there = both 'train_cnn.lua --epochs 1'
    agrees('epoch  1  loss (%S+)', 2e-4, here, there)
    here, there = both 'train_charlm.lua --steps 2 --batch 4'
    agrees('step    2  loss (%S+)', 2e-3, here, there)
    agrees('test loss (%S+) bits', 2e-3, here, there)
  end)

  it('says that there is none', function()
    local status, text = run './ridge recipes/train_mlp.lua --smoke --device cuda:99'
    assert.equal(1, status)
    assert.matches('there is no device cuda:99', text)
  end)
end)

describe('recipes/train_cnn.lua', function()
  it('learns digits, in f32 and with products in bf16', function()
    for _, dtype in ipairs { 'f32', 'bf16' } do
      local status, text = run('./ridge --threads 1 recipes/train_cnn.lua --smoke --epochs 15 '
        .. '--batch 16 --dtype ' .. dtype)
      assert.equal(0, status, text)
      assert.is_true(tonumber(text:match 'test accuracy (%d%.%d%d%d%d)\n') > 0.8, text)
    end
  end)

  it('says which file is missing', function()
    local status, text = run './ridge recipes/train_cnn.lua --data /nowhere'
    assert.equal(1, status)
    assert.matches('data.mnist: there is no [%w%-]+%-ubyte, packed or not, in /nowhere', text)
  end)
end)

describe('recipes/train_charlm.lua', function()
  it('learns letters, writes, and says what it tests', function()
    local status, text = run './ridge --threads 1 recipes/train_charlm.lua --smoke --steps 30'
    assert.equal(0, status, text)
    local first = tonumber(text:match 'step +%d+  loss (%d+%.%d+)')
    local last, entropy =
      text:match 'test loss (%d+%.%d+) bits a letter %(by frequency alone (%S+)%)'
    assert.is_true(tonumber(last) < first - 0.3, text)
    assert.is_true(tonumber(entropy) > 3 and tonumber(entropy) < 7)
  end)

  it('says when there is too little text', function()
    local path = os.tmpname()
    local status, text = run('./ridge recipes/train_charlm.lua --text ' .. path)
    os.remove(path)
    assert.equal(1, status)
    assert.matches('the text has 0 letters; at least 2560 are wanted', text)
  end)
end)

describe('recipes/train_mlp.lua', function()
  it('goes on where it was', function()
    local folder = os.tmpname()
    os.remove(folder)
    local command = './ridge --threads 1 recipes/train_mlp.lua --smoke --folder ' .. folder
    local status, text = run(command .. ' --epochs 2')
    assert.equal(0, status, text)
    assert.matches('epoch 2/2  loss', text)
    status, text = run(command .. ' --epochs 3 --accumulate 1')
    os.execute('rm -r ' .. folder)
    assert.equal(0, status, text)
    assert.matches('going on after epoch 2\nepoch 3/3  loss', text)
    assert.matches('test accuracy %d%.%d%d%d%d %(epoch %d%)', text)
  end)
end)

describe('recipes/amp.lua', function()
  it('says what bf16 brings, with an interval, and what both learn', function()
    local status, text = run './ridge --threads 1 recipes/amp.lua --smoke'
    assert.equal(0, status, text)
    assert.matches('width   32: f32 %d+%.%d+ ms, bf16 %d+%.%d+ ms: .- times as fast %[%d', text)
    assert.matches('bf16 learns: test accuracy 0%.%d+', text)
  end)
end)

describe('recipes/quant.lua', function()
  it('sets versions of nets side by side, with verdicts, and goes on where it was', function()
    local path = os.tmpname()
    finally(function() os.remove(path) end)
    local command = './ridge --threads 1 recipes/quant.lua --smoke --rows ' .. path
    local status, text = run(command)
    assert.equal(0, status, text)
    assert.matches('mlp, 2 seeds: f32 %d+%.%d+ %%, %d+%.%d+ ms at b1', text)
    assert.matches('i8 static +%d+%.%d+ +[+-]%d', text)
    assert.matches('static: 3 to 4 times as fast, b64 +mlp +%d+%.%d+ %[%d.-%] +%l', text)
    local lines = {}
    for line in io.lines(path) do lines[#lines + 1] = line end
    assert.equal(11, #lines) -- a head, and five versions of two nets
    -- what is shown is the middle of what was kept, within its interval; rows of other data or of
    -- more images are other rows
    local at, list, lo, hi = {}, {}, math.huge, 0
    for name in lines[1]:gmatch '[^\t]+' do at[#at + 1], at[name] = name, #at + 1 end
    for i = 2, 11 do
      local cells = {}
      for cell in lines[i]:gmatch '[^\t]+' do cells[#cells + 1] = tonumber(cell) or cell end
      assert.equal('made, 200 + 200 images, 1 epochs, 1 threads, 1 calls', cells[at.setting])
      for _, name in ipairs { 'b1', 'b64' } do
        local v = cells[at[name]]
        assert.is_true(cells[at[name .. '_lo']] <= v and v <= cells[at[name .. '_hi']], lines[i])
      end
      if cells[at.version] == 'i8 static' then
        list[#list + 1] = cells[at.b64]
        lo, hi = math.min(lo, cells[at.b64_lo]), math.max(hi, cells[at.b64_hi])
      end
    end
    assert.equal(2, #list)
    assert.is_truthy(text:find(('%.2f [%.2f, %.2f]'):format((list[1] + list[2]) / 2, lo, hi), 1,
      true), text)
    local file = io.open(path, 'w') -- as if the run had been ended while it wrote
    file:write(table.concat(lines, '\n', 1, 10), '\n', lines[11]:sub(1, 30), '\n')
    file:close()
    status, text = run(command)
    assert.equal(0, status, text)
    local n = 0
    for line in io.lines(path) do
      n = n + 1
      if n <= 10 then assert.equal(lines[n], line) end
    end
    assert.equal(12, n)
    assert.matches('i8 static .- of 2 ', text)
  end)

  it('notices before it trains that its rows cannot be written', function()
    local status, text = run './ridge recipes/quant.lua --smoke --rows /nowhere/rows.tsv'
    assert.equal(1, status)
    assert.matches("%-%-rows: '/nowhere/rows.tsv' cannot be written: there is no folder", text)
  end)
end)

describe('recipes/distill.lua', function()
  it('sets students with and without a teacher side by side', function()
    local status, text = run './ridge --threads 1 recipes/distill.lua --smoke'
    assert.equal(0, status, text)
    assert.matches('seed  2: labels alone 0%.%d+, with the teacher 0%.%d+, difference', text)
    assert.matches('the teacher makes [+-]0%.%d+ of test accuracy %[', text)
  end)

  it('takes the t of as many seeds as there are', function()
    local status, text = run('./ridge --threads 1 recipes/distill.lua --seeds 11 --images 10 '
      .. '--epochs 1')
    assert.equal(0, status, text)
    local list, sum, squares = {}, 0, 0
    for d in text:gmatch 'difference ([+-]0%.%d+)' do list[#list + 1] = tonumber(d) end
    assert.equal(11, #list)
    for _, d in ipairs(list) do sum = sum + d end
    for _, d in ipairs(list) do squares = squares + (d - sum / 11) ^ 2 end
    local reach = 2.2281 * math.sqrt(squares / 10 / 11) -- t for 95 % at 10 degrees of freedom
    local low, high = text:match '%[([+-]0%.%d+) %.%. ([+-]0%.%d+)%]'
    assert.is_true(math.abs(low - (sum / 11 - reach)) < 2e-4, text)
    assert.is_true(math.abs(high - (sum / 11 + reach)) < 2e-4, text)
  end)

  it('notices before it trains that there are not so many images', function()
    local status, text = run './ridge recipes/distill.lua --smoke --seeds 2 --images 5000 --width 8'
    assert.equal(0, status, text) -- toy sizes have their own
    status, text = run './ridge recipes/distill.lua --images 5000'
    assert.equal(1, status)
    assert.matches('%-%-images 5000: there are 4000 to train on', text)
    assert.is_nil(text:find('teacher:', 1, true))
  end)

  it('ends at the first Ctrl-C, and says nothing of what it has not trained', function()
    local _, text = run [[out=$(mktemp)
      ./ridge --threads 1 recipes/distill.lua --seeds 20000 --epochs 1 --images 50 > $out &
      p=$!; until grep -q 'seed  1' $out; do sleep 0.1; done
      kill -INT $p; wait $p; echo "ended $?"; cat $out; rm $out]]
    assert.matches('ended 130\n', text)
    assert.is_nil(text:find('the teacher makes', 1, true))
  end)
end)

describe('recipes/digits.lua', function()
  it('ends at the first Ctrl-C, in the middle of its training', function()
    local _, text = run [[out=$(mktemp)
      stdbuf -oL ./ridge --threads 1 recipes/digits.lua --epochs 20000 > $out &
      p=$!; until grep -q 'digits of seven' $out; do sleep 0.1; done; sleep 0.5
      kill -INT $p; wait $p; echo "ended $?"; rm $out]]
    assert.matches('ended 130\n', text)
  end)
end)

-- A ratio as ridge.measure.ab says it in a column: with its interval, inside of it, and a verdict.
local RATIO = '(%d+%.%d%d) %[(%d+%.%d%d) %.%. (%d+%.%d%d)%] (%l+)'
local VERDICTS = { faster = true, slower = true, equal = true, undecided = true }
local function is_verdict(ratio, lo, hi, word)
  assert.is_true(tonumber(lo) <= tonumber(ratio) and tonumber(ratio) <= tonumber(hi))
  assert.is_true(VERDICTS[word], word)
end

-- The pairs that were timed in paired blocks and kept: 'kind=matrix kind=tiles' ...
local function kept_pairs(db, name)
  local st, list = sqlite.open(db, 'read'), {}
  for i, row in ipairs(st:query 'SELECT a, b, blocks FROM comparison ORDER BY id') do
    assert.is_true(row.blocks >= 8)
    local function value(params) return params:match(('"%s":"?([%%w]+)'):format(name)) end
    list[i] = value(row.a) .. ' ' .. value(row.b)
  end
  st:close()
  return list
end

describe('recipes/recompute.lua', function()
  it('keeps less with segments, and says what that takes in paired blocks', function()
    local db = os.tmpname()
    os.remove(db)
    local text2
    local status, text = run('./ridge --threads 1 recipes/recompute.lua --smoke --db ' .. db)
    assert.equal(0, status, text)
    local kept, n = {}, 0
    -- each time with its interval and its grade
    for segments, mb in text:gmatch
        '\n +(%w+) +%d+%.%d+ +%S+ %.%. %d+%.%d+ +[ABCD] +(%d+%.%d+)' do
      kept[segments], n = tonumber(mb), n + 1
    end
    assert.equal(4, n, text)
    assert.is_true(kept['4'] < kept.none, text)
    n = 0
    for segments, ratio, lo, hi, word in text:gmatch('\n +(%w+) +%d[^\n]- ' .. RATIO) do
      is_verdict(ratio, lo, hi, word)
      assert.not_equal('none', segments)
      n = n + 1
    end
    assert.equal(3, n, text)
    assert.same({ '0 1', '0 2', '0 4' }, kept_pairs(db, 'segments'))
    -- what it is told when something else is asked of the same name can be done
    status, text2 = run(('./ridge --threads 1 recipes/recompute.lua --smoke --heads 2 --db ' .. db))
    assert.equal(1, status)
    assert.matches('Give %-%-new ', text2)
    status, text2 = run(('./ridge --threads 1 recipes/recompute.lua --smoke --heads 2 --new --db '
      .. db))
    assert.equal(0, status, text2)
    assert.matches('measured: ', text2)
    os.execute('rm -f ' .. db .. '*')
    assert.matches('measured: %-?%d+ %% less memory for [+-]%d+ %% time %[[+-]%d+ %.%. [+-]%d+%], '
      .. '%l+, with %d segments', text)
    -- of the row with that many segments, and of no other with less
    local less, segments = text:match 'measured: (%-?%d+) %% less memory .* with (%d) segments'
    local least = math.huge
    for of_plain in text:gmatch '[ABCD] +%d+%.%d+ +%d+%.%d+ +(%d%.%d%d)' do
      least = math.min(least, tonumber(of_plain))
    end
    assert.is_true(math.abs(less - 100 * (1 - least)) <= 1, text)
    assert.matches(('\n +%s +%%d[^\n]* [ABCD] +%%S+ +%%S+ +%.2f'):format(segments, least), text)
  end)
end)

describe('recipes/levels.lua', function()
  it('learns the same at each level, and says what each switched', function()
    local status, text = run './ridge --threads 1 recipes/levels.lua --smoke --length 64'
    assert.equal(0, status, text)
    local peak, loss, names, graded = {}, {}, {}, {}
    for name, mb, last in text:gmatch '\n(%l+) +(%d+%.%d+) +%d+%.%d+ +%d+%.%d+ +(%d%.%d+)' do
      peak[name], loss[name] = tonumber(mb), tonumber(last)
    end
    -- each by itself, with an interval and a grade
    for name, ms, lo, hi in text:gmatch ('\n(%l+) +%d[%d. ]- (%d+%.%d%d) +(%d+%.%d%d) %.%. '
        .. '(%d+%.%d%d)  [ABCD] ') do
      assert.is_true(tonumber(lo) <= tonumber(ms) and tonumber(ms) <= tonumber(hi), text)
      graded[#graded + 1] = name
    end
    assert.same({ 'advanced', 'ultra' }, graded)
    assert.matches('\nbasic +%d[%d. ]+%.%. +%d+%.%d%d  [ABCD]\n', text)
    -- each but the first beside it, in paired blocks, with what ran in the timed region
    for name, ratio, lo, hi, word, flags in text:gmatch('\n(%l+) +%d[^\n]- ' .. RATIO
        .. ' %(([^\n]*)%)') do
      is_verdict(ratio, lo, hi, word)
      assert.matches('LUA', flags)
      names[#names + 1] = name
    end
    assert.same({ 'advanced', 'ultra' }, names)
    assert.matches('ULTRA [+-]%d+ %% memory, %d+%.%d%d times the speed %[%d+%.%d%d %.%. ', text)
    assert.is_true(peak.basic > 0 and peak.ultra > 0, text)
    assert.matches('flash_attention +on +2 layers of attention go by tiles now', text)
    assert.is_true(math.abs(loss.ultra - loss.basic) < 0.01, text)
  end)
end)

describe('recipes/levels.lua, asked for a batch that the last level cannot part', function()
  it('says so before it trains', function()
    local status, text = run './ridge recipes/levels.lua --batch 9'
    assert.equal(1, status)
    assert.matches('a multiple of 8', text)
    assert.is_nil(text:find('epoch', 1, true))
  end)
end)

describe('every recipe with a sweep', function()
  it('can start a new one, as the sweep advises where something else is asked', function()
    local names, n = io.popen 'ls recipes/*.lua', 0
    for path in names:lines() do
      local file = io.open(path)
      local source = file:read '*a'
      file:close()
      if source:find('ridge%.sweep[ (]') and source:find ':run[ ({]' then
        local status, text = run('./ridge ' .. path .. ' --help')
        assert.equal(0, status, text)
        assert.is_truthy(text:find('--new ', 1, true), path)
        n = n + 1
      end
    end
    names:close()
    assert.is_true(n >= 7)
  end)
end)

describe('a loader', function()
  it('says when a batch is larger than the data, and goes on', function()
    local status, text = run([[./ridge -e 'local n = 0
      for x in ridge.data.Loader({ ridge.ones(3) }, { batch = 10 }):each() do n = n + x.count end
      return n']])
    assert.equal(0, status, text)
    assert.matches('a batch of 10 is larger than the 3 rows there are: each epoch is one batch '
      .. 'of 3', text)
    assert.matches('\n3\n', text)
  end)
end)

describe('recipes/attention.lua', function()
  it('sets the kinds side by side, with intervals and grades, and in paired blocks', function()
    local path = os.tmpname()
    local status, text = run(('./ridge --threads 1 recipes/attention.lua --smoke --db %s.db '
      .. '--out %s.png'):format(path, path))
    assert.equal(0, status, text)
    local seen = {}
    for n, kind in text:gmatch '\n +(%d+)  (%l+) +%d+%.%d+ +%S+ %.%. %d+%.%d+  [ABCD] +%d+%.%d' do
      seen[#seen + 1] = n .. ' ' .. kind
    end
    assert.same({ '64 matrix', '64 tiles', '64 quarter', '64 features', '256 matrix', '256 tiles',
      '256 quarter', '256 features' }, seen)
    local n = 0
    for kind, ratio, lo, hi, word in text:gmatch('\n +%d+  (%l+) +%d[^\n]- ' .. RATIO) do
      is_verdict(ratio, lo, hi, word)
      assert.not_equal('matrix', kind)
      n = n + 1
    end
    assert.equal(6, n, text)
    assert.same({ 'matrix tiles', 'matrix quarter', 'matrix features', 'matrix tiles',
      'matrix quarter', 'matrix features' }, kept_pairs(path .. '.db', 'kind'))
    os.execute(('rm -f %s %s.db* %s.png'):format(path, path, path))
  end)

  it('compares no tiles that compute something else', function()
    local path = os.tmpname()
    local status, text = run(([[./ridge --threads 1 -e "
      local nn = require('ridge').nn
      local attention = nn.attention
      nn.attention = function(...) return attention(...) * 1.5 end
      rawset(_G, 'arg', { [0] = 'attention', '--smoke', '--db=%s.db', '--out=%s.png' })
      dofile 'recipes/attention.lua'"]]):format(path, path))
    os.execute(('rm -f %s %s.db* %s.png'):format(path, path, path))
    assert.equal(1, status, text)
    assert.matches('give check = false when that is meant', text)
  end)
end)
