-- SPDX-License-Identifier: MIT
-- What README and the help say can be typed is typed here: every command and every line of Lua, in
-- an empty folder, over spaces that are small. What is not run is listed by hand, with the reason.

local folders = dofile 'tests/lua/store/folder.lua'

local function read(path)
  local file = assert(io.open(path, 'rb'))
  local text = file:read '*a'
  file:close()
  return text
end

local README = read 'README.md'

local function write(path, text)
  local file = assert(io.open(path, 'w'))
  file:write(text)
  file:close()
end

-- The indented blocks of a text, each as one string, without the indent.
local function blocks(text)
  local list, open = {}, nil
  for line in (text .. '\nend\n'):gmatch '(.-)\n' do
    if line:find '^    ' then
      if not open then
        open = {}
        list[#list + 1] = open
      end
      open[#open + 1] = line:sub(5)
    elseif line ~= '' then
      open = nil
    else
      if open then open[#open + 1] = '' end
    end
  end
  for i, lines in ipairs(list) do list[i] = table.concat(lines, '\n') end
  return list
end

-- The block in which some words stand.
local function block_with(words)
  for _, block in ipairs(blocks(README)) do
    if block:find(words, 1, true) then return block end
  end
  error('README has no block with ' .. words)
end

-- Words of README and of the help, and what they become so that a run takes a second.
local SMALLER = {
  { 'probe:64..512', 'probe:64..65' },
  { 'batch=1..1024*2 -P width=128..4096+128', 'batch=1..2*2 -P width=128' },
  { '--samples 50', '--samples 2' }, { '%-%-new$', '%0 --no-calibrate --quick' },
  { '%-j 4$', '-j 2 --no-calibrate --quick' }, { '--budget 2h', '%0 --no-calibrate --quick' },
  { '--shard 2/8', '%0 --no-calibrate --quick' },
  { '^(ridge ab .*)', '%1 --looks 1 --blocks 6 --processes 1' },
  { '{1024,4096}', '{64,64}' }, { '{1024,512}', '{64,64}' }, { '{784,512,10}', '{16,10}' },
  { '{1024,512,T,R}', '{64,64,T,R}' }, { 'batch=1..256*2', 'batch=2' },
  { '^(ridge bench .*)', '%1 --quick --no-calibrate' },
  { '^(ridge onnx bench .*)', '%1 --quick --no-calibrate' },
  { 'R=16..64*2 ', 'R=2,4 ' }, { '--memory 2GB', '--memory 4MB' },
  { '--kind throughput', '%0 --max 2' }, { '--seconds 5', '--seconds 0.1' },
  { '--settle 5m', '--settle 1s' },
  -- beside other tests the machine is hardly ever quiet; best_spec has the waiting
  { '--when-quiet 2h &&', '--when-quiet 1s; test $? = 0 -o $? = 4 &&' },
  { '4711', '3' }, { 'replay 17', 'replay 1' },
  { 'landscape --quick', 'landscape --smoke --layers dense,sketched --forms bits' },
  { '^(ridge %l+ train_mlp .*)', '%1 --smoke' },
  { '^(ridge autotune %-%-probe)', 'OMP_NUM_THREADS=1 %1' },
  { '^ridge doctor$', 'ridge doctor --seconds 0.1' },
  { '^(ridge smaller .*)', '%1 --budget 0.001 -- --smoke' },
}

-- Statuses that tell what was found, not that something went wrong.
local FOUND = {
  { '^ridge replay', 3 }, { '%-%-fail%-on', 3 }, { 'doctor %-%-device cuda', 1 },
  { '^ridge smaller', 2 }, -- nothing is tried in a thousandth of a second
}

local NOT_RUN = {
  ['make demo'] = 'measures for minutes', ['make test'] = 'this is one of its tests',
  ['make gpu'] = 'compiles for minutes', ['make bundle'] = 'packs; bundle_spec has its own',
  ['scripts/gpu-check'] = 'needs a GPU; gpu_check_spec runs it on a simulated one',
  ['ridge calibrate --threads 1,2'] = 'two minutes',
  ['ridge calibrate --device cuda:0'] = 'needs a GPU',
  ['ridge trust --minutes 5 -o trust.png'] = 'five minutes',
  ["ridge ab net.onnx --program 'python3 scripts/peers/ort_worker.py net.onnx'"] =
    'needs ONNX Runtime; onnx_change_spec has another program',
  ['ridge launch -n 8 --hosts a:4,b:4 --restarts 3 train.lua'] =
    'needs machines; dist/hosts_spec has network namespaces',
  ['ridge scale train.lua --ranks 1..64*2'] = 'the summary, of the example below',
  ['ridge net -n 2..8'] = 'a minute, with Open MPI; scaling/network_spec measures two ranks',
  ['ridge net --show'] = 'wants what the line above measures',
  ["ridge query net 'ranks, alpha_us, gb_s, us_65536'"] = 'likewise; docs/howto/scaling.md has it',
  ['ridge net -n 2..4 && ridge scale train.lua --ranks 1..64*2 -o scale.png'] =
    'half a minute, with Open MPI; scaling/scale_spec measures two ranks',
  ['ridge scale train.lua --ranks 1..64*2 --batch 32,64 --bucket-mb 1,25 --compress none,bf16'] =
    'likewise; scaling/scale_spec measures several settings',
  ['ridge scale train.lua --ranks 1..1024*2 --alpha 12 --rate 2.8 --machine 4'] =
    'wants a script that trains by ranks; scaling/scale_spec has one',
  ['ridge replot'] = 'only named there; the help has it with its words',
  ['ridge db info|check|backup|migrate|pack|publish'] = 'six commands in one; others run each',
}

local function small(command)
  for _, pair in ipairs(SMALLER) do
    local from = pair[1]
    if not from:find '^%^' and not from:find '%$$' then from = from:gsub('%p', '%%%0') end
    command = command:gsub(from, pair[2])
  end
  return command
end

-- Of a line of shell: what is typed, without its comment and the blanks before it.
local function typed(line)
  return (line:gsub('%s+#.*$', ''):gsub('^%./', ''):gsub('%s+$', ''))
end

-- Databases that the commands ask for, made by the recipe of README and two of this file.
local MLP = [[
local ridge = require 'ridge'
local opt = ridge.args { { 'quick', false, 'fewer samples' } }
return ridge.sweep 'mlp' {
  space = { impl = { 'naive', 'blocked' }, batch = { 2 }, width = { 8 }, lr = { 0.1 } },
  protocol = 'quick', args = { quick = opt.quick },
  setup = function(p) return { x = ridge.ones(p.batch, p.width) } end,
  measure = function(p, c, m) m:time('fwd', function() return c.x + p.lr end) end,
}
]]

-- train.lua of help
local TRAIN = [[
local ridge = require 'ridge'
local net = ridge.nn.Linear(4, 2)
local optimizer = ridge.optim.SGD(net, { lr = 0.1 })
for x in ridge.data.Loader({ ridge.ones(8, 4) }, { batch = 4 }):each() do
  net(x):sum():backward()
  optimizer:step()
end
]]

describe('what can be typed', function()
  local home, stored -- a folder in which commands run, and one with what is there before

  -- Run a command of ridge's in the folder, against its own database.
  local function run(command, where)
    return folders.run(('PATH="$PWD:$PATH" && root=$PWD && cd %s && HOME=%s RIDGE_LOCKS=%s/locks '
      .. 'RIDGE_HISTORY= RIDGE_PATH=$root/recipes sh -c %s'):format(where or home, home, home,
      "'" .. command:gsub("'", [['\'']]) .. "'"))
  end

  local function check(command, where)
    local less = small(command)
    local text, status = run(less, where)
    local fine = status == 0
    for _, each in ipairs(FOUND) do
      fine = fine or command:find(each[1]) ~= nil and status == each[2]
    end
    assert.is_true(fine, ('%s\nstatus %d\n%s'):format(less, status, text))
    return text
  end

  setup(function()
    home, stored = folders.new(), folders.new()
    local events = require('ridge').tensorboard(stored .. '/runs/one') -- of a run that has ended
    events:ended()
    events:close()
    local recipe, n = block_with('-- widths.lua'):gsub('ridge%.geom%(64, 1024%)', '{ 64, 65 }')
    assert.equal(1, n)
    recipe, n = recipe:gsub("ridge%.sweep 'widths' {", "%0 protocol = 'quick',")
    assert.equal(1, n)
    recipe, n = recipe:gsub('sw:run%(%)', 'sw:run { calibrate = false }')
    assert.equal(1, n)
    write(stored .. '/widths.lua', recipe)
    write(stored .. '/mlp.lua', MLP)
    write(stored .. '/train.lua', TRAIN)
    local ridge = require 'ridge'
    local net = ridge.nn.Sequential(ridge.nn.Linear(4, 3), ridge.nn.ReLU()):eval()
    for _, name in ipairs { 'net', 'small' } do
      ridge.onnx.export(net, ('%s/%s.onnx'):format(stored, name), { x = ridge.ones(2, 4),
        dynamic = { input = { 'N' } } })
    end
    ridge.save(stored .. '/net.safetensors', net:state())
    assert.equal(0, os.execute(('cd %s && mkdir results && ln -s "$OLDPWD/recipes" .')
      :format(stored)))
    local text = check('ridge widths.lua', stored)
    -- 2 widths, 2 batches, 2 types: the loop at the end prints a line for each
    local rows = 0
    for width, batch in text:gmatch '\n?(6[45])\t(%d+)\t[%d.]+\t[ABCD]\n' do
      rows = rows + (width and batch and 1 or 0)
    end
    assert.equal(8, rows, text)
    check('ridge sweep mlp.lua --no-calibrate --db theirs.db -- --quick', stored)
    check('ridge plot map widths -x width -y batch -z fwd -o map.png', stored)
    for _, name in ipairs { 'a', 'b', 'main', 'pr', 'laptop', 'server', 'shard1', 'shard2',
        'shard3', 'shard4', 'part-1', 'part-2', 'part1', 'part2' } do
      assert.equal(0, os.execute(('cp %s/results/ridge.db %s/%s.db'):format(stored, stored, name)))
    end
  end)
  before_each(function() os.execute(('rm -rf %s/*; cp -r %s/* %s'):format(home, stored, home)) end)
  teardown(function()
    folders.remove(home)
    folders.remove(stored)
  end)

  -- -- Commands ---------------------------------------------------------------------------------

  local commands, seen = {}, {}
  for _, block in ipairs(blocks(README)) do
    if not block:find ' = ' then -- that is Lua
      for line in (block .. '\n'):gmatch '(.-)\n' do
        local command = typed(line)
        if command ~= '' and not command:find '^[$>]' then commands[#commands + 1] = command end
      end
    end
  end
  for piece in README:gmatch '`%./(ridge [^`]+)`' do
    if not piece:find '%u%u' then commands[#commands + 1] = piece end
  end
  local in_readme = #commands
  local list = folders.run './ridge --help'
  for line in list:match('\ncommands\n(.*)'):gmatch '[^\n]+' do
    local example = line:match ': (ridge .*)$'
    if example then commands[#commands + 1] = example end
    local examples = folders.run(('./ridge %s --help'):format(line:match '^  (%l[%l-]*) '))
    for command in examples:gmatch '\n    (ridge [^\n]+)' do
      commands[#commands + 1] = typed(command)
    end
  end

  it('is found', function()
    assert.is_true(in_readme >= 18, 'README: ' .. in_readme)
    assert.is_true(#commands - in_readme >= 35, 'help: ' .. #commands - in_readme)
  end)

  for _, command in ipairs(commands) do
    if not seen[command] and not NOT_RUN[command] then
      it(command, function() check((command:gsub('^recipes/', 'ridge %0'))) end)
    end
    seen[command] = true
  end

  it('and nothing is left out that is not there', function()
    for command, reason in pairs(NOT_RUN) do
      assert.is_true(seen[command], ('%s (%s)'):format(command, reason))
    end
  end)

  it('as a target of make', function()
    local n = 0
    for target in README:gmatch '[`\n ]+make ([%l-]+)' do
      local text, status = folders.run('make -n ' .. target)
      local plain = target:gsub('%-', '%%-')
      if README:find('    make ' .. plain) or README:find('`make ' .. plain .. '`') then
        assert.equal(0, status, text)
        n = n + 1
      end
    end
    assert.is_true(n >= 7)
  end)

  it('as the grid that README counts', function()
    write(home .. '/widths.lua', block_with '-- widths.lua')
    local text = run 'ridge sweep widths.lua --dry-run --db none.db'
    assert.matches('20 in the grid', text)
    assert.matches('%-%-dry%-run +# 20 in the grid, 20 measured, 0 to run', README)
  end)

  -- -- Lua --------------------------------------------------------------------------------------

  -- Run pieces of code, one after the other, with the same variables.
  local function code(pieces)
    local words = {}
    for i, piece in ipairs(pieces) do
      words[i] = "-e '" .. piece:gsub("'", [['\'']]) .. "'"
    end
    local text, status = run('ridge ' .. table.concat(words, ' '))
    assert.equal(0, status, text)
    return text
  end

  -- Type lines at the prompt; what it says, which must be no error.
  local function prompt(lines)
    write(home .. '/lines', table.concat(lines, '\n') .. '\n')
    local text, status = run 'ridge --quiet < lines'
    assert.equal(0, status, text)
    assert.is_nil(('\n' .. text):match '\n%a* ?error[^\n]*' or text:match 'no help[^\n]*', text)
    return text
  end

  it('at the prompt', function()
    local lines = {}
    for line in block_with('>> x = '):gmatch '>> ([^\n]+)' do lines[#lines + 1] = line end
    assert.equal(16, #lines)
    assert.matches('ridge%.capture%(', prompt(lines))
  end)

  it('to train', function()
    code { 'images, labels = ridge.randn(128, 784), ridge.ones(128):to "i64"',
      block_with 'ridge.data.Loader', block_with "ridge.nn.class 'Scale'",
      'local y = Scale(3)(ridge.ones(2, 3)):sum():item() == 6 or error "wrong"' }
  end)

  it('from the overview', function()
    local overview, lines = prompt { '?' }, {}
    for line in overview:match('\nstart\n(.-)\n\n'):gmatch '  ([^\n]+)' do
      lines[#lines + 1] = (line:gsub('%s%s+.*$', ''))
    end
    assert.same({ '?ridge', 'x = ridge.randn(3, 4)', 'x:sum(-1)' }, lines)
    local topics = 0
    for topic in overview:gmatch '%?%l[%w_.]*' do
      if topic ~= '?name' then
        lines[#lines + 1] = topic
        topics = topics + 1
      end
    end
    assert.equal(5, topics)
    for name in overview:gmatch ' (%%%l+)' do lines[#lines + 1] = '?' .. name end
    assert.is_true(#lines >= 14)
    lines[#lines + 1] = 'str(x), summary(x)'
    prompt(lines)
  end)

  it('names only what ridge has', function()
    local ridge, n = require 'ridge', 0
    for name in README:gmatch '%f[%w]ridge(%.%l[%w_.]*)' do
      if name ~= '.db' and name ~= '.h' then
        local value = ridge
        for part in name:gmatch '[%w_]+' do
          value = value[part]
          assert.is_not_nil(value, 'ridge' .. name)
        end
        n = n + 1
      end
    end
    assert.is_true(n >= 30)
  end)

  it('and the recipes of its table take what is said', function()
    local n = 0
    for path, option in README:gmatch '| `(recipes/[%w_]+%.lua) ?([^`]*)`' do
      local text, status = folders.run(('./ridge %s --help'):format(path))
      assert.equal(0, status, text)
      local name = option:match '%-%-%l+'
      assert.is_true(name == nil or text:find(name, 1, true) ~= nil, path .. option)
      n = n + 1
    end
    assert.equal(7, n)
  end)
end)
