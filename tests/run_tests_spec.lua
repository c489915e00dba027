-- SPDX-License-Identifier: MIT
--- scripts/run_tests on files that hang, break, or test nothing: each is named, each is a failure.

local folder

local function path(name) return folder .. '/' .. name end

local function write(name, text)
  local file = assert(io.open(path(name), 'w'))
  file:write(text)
  file:close()
  return path(name)
end

local function read(name)
  local file = io.open(path(name))
  local text = file and file:read '*a'
  if file then file:close() end
  return text
end

-- What it prints, and its exit status.
local function run(command)
  local status = os.execute(('%s > %s 2>&1 </dev/null'):format(command, path 'out'))
  return read 'out', status
end

-- Run what hangs: the limit grows until the test that hangs has begun, which it says with a file.
local function hung(what)
  for power = 1, 12 do
    local limit = 2 ^ power
    local text, status = run(('RIDGE_TEST_LIMIT=%d scripts/run_tests %s'):format(limit, what))
    if read 'begun' then return text, status, limit end
  end
end

-- Does the process that wrote its number into `begun` still run?
local function lives()
  local state = io.open(('/proc/%d/stat'):format(read 'begun'))
  if not state then return false end
  local text = state:read '*a'
  state:close()
  return not text:find '%) [ZX]'
end

local function has(text, words) assert.is_truthy(text:find(words, 1, true), text) end

local function last(text) return text:match '([^\n]*)\n$' end

describe('run_tests', function()
  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
    os.execute('mkdir ' .. folder)
  end)

  after_each(function() os.execute('rm -r ' .. folder) end)

  local GOOD = "describe('fine', function() it('holds', function() end) end)"

  it('names the spec and the test that hang, ends all they started, and goes on', function()
    -- its child leaves the group and the session, and does not listen to SIGTERM
    write('child', "trap : TERM\necho $$ >" .. path 'begun' .. "\nwhile :; do sleep 1; done\n")
    local spec = write('wait_spec.lua', ([[
      describe('the outer', function()
        it('passes', function() end)
        describe('inner', function()
          it('never ends', function() os.execute 'setsid sh %s' end)
        end)
      end)]]):format(path 'child'))
    local text, status, limit = hung(spec .. ' ' .. write('good_spec.lua', GOOD))
    has(text, ('# %s: hangs: no end after %d s'):format(spec, limit))
    has(text, spec .. ': the outer inner never ends')
    -- with what ran, wherever it had moved; and once more at the end
    local _, n = text:gsub('the outer inner never ends\n# +PID ', '')
    local _, children = text:gsub(' sh ' .. path 'child' .. '\n', '')
    assert.same({ 2, 4 }, { n, children }, text) -- the child, and the shell it was started by
    assert.equal('1 passed, 1 failed', last(text))
    assert.is_true(status ~= 0)
    assert.is_false(lives())
  end)

  it('names the test of a program after which nothing came', function()
    local program = write('program', '#!/bin/sh\n'
      .. 'echo "ok 1 - the first"\necho "ok 2 - the second"\n'
      .. 'echo $$ >' .. path 'begun' .. '\nwhile :; do sleep 1; done\n')
    os.execute('chmod +x ' .. program)
    local text, status = hung(program)
    has(text, 'the one after "ok 2 - the second"')
    assert.equal('2 passed, 1 failed', last(text))
    assert.is_true(status ~= 0)
    assert.is_false(lives())
  end)

  it('fails where a filter matches nothing, and where a file has no test', function()
    local empty = write('empty_spec.lua', "describe('nothing', function() end)")
    local good = write('good_spec.lua', GOOD)
    local text, status = run('scripts/run_tests ' .. empty)
    has(text, 'no tests in ' .. empty)
    assert.equal('0 passed, 1 failed', last(text))
    assert.is_true(status ~= 0)
    text, status = run('busted --filter zork ' .. good)
    has(text, 'no test has run: nothing matches')
    assert.is_true(status ~= 0)
    text, status = run('busted --filter holds ' .. good)
    assert.equal(0, status, text)
    -- among others as well; a file whose tests the filter leaves out is no mistake
    local other = write('other_spec.lua', "it('is another', function() end)")
    text, status = run(('busted --filter holds %s %s'):format(good, other))
    assert.equal(0, status, text)
    text, status = run(('busted %s %s'):format(good, empty))
    has(text, 'no tests in ' .. empty)
    assert.is_true(status ~= 0)
  end)

  it('counts what fails, what breaks off and what is less than planned', function()
    local function program(name, lines)
      local file = write(name, '#!/bin/sh\n' .. lines)
      os.execute('chmod +x ' .. file)
      return last((run('scripts/run_tests ' .. file)))
    end
    assert.equal('2 passed, 0 failed', program('all', 'echo "ok 1 - a\nok 2 - b\n1..2"\n'))
    assert.equal('1 passed, 1 failed', program('bad', 'echo "ok 1 - a\nnot ok 2 - b\n1..2"\n'))
    assert.equal('1 passed, 1 failed', program('few', 'echo "ok 1 - a\n1..2"\n'))
    assert.equal('1 passed, 1 failed', program('code', 'echo "ok 1 - a\n1..1"\nexit 3\n'))
    assert.equal('1 passed, 1 failed', program('dies', 'echo "ok 1 - a"\nkill -9 $$\n'))
    assert.equal('0 passed, 1 failed', program('silent', 'exit 0\n'))
    local text = run('scripts/run_tests ' .. write('exit_spec.lua',
      "it('passes', function() end)\nit('leaves', function() os.exit(0) end)"))
    assert.equal('0 passed, 1 failed', last(text))
  end)

  it('tells what failed once more at the end', function()
    local program = write('program', '#!/bin/sh\n'
      .. "echo 'ok 1 - a\nnot ok 2 - b\n# file.c:3: 1 is not 2\nok 3 - c\n"
      .. "# of no interest\n1..3'\n")
    os.execute('chmod +x ' .. program)
    local spec = write('bad_spec.lua', "it('adds', function() assert.equal(5, 2 + 2) end)")
    local good = write('good_spec.lua', GOOD)
    local text = run(('scripts/run_tests %s %s %s'):format(program, spec, good))
    local told = text:match '\n(# failed: .*)\n%d+ passed'
    has(told, ('# failed: %s\nnot ok 2 - b\n# file.c:3: 1 is not 2\n# failed: %s\n')
      :format(program, spec))
    has(told, 'adds')
    has(told, '(number) 5')
    assert.is_nil(told:find('of no interest', 1, true))
    assert.is_nil(told:find('good_spec', 1, true))
    assert.equal('3 passed, 2 failed', last(text))
    -- one that breaks without a word: the end of what it printed
    local dies = write('dies', '#!/bin/sh\necho "ok 1 - a"\necho the last words\nkill -9 $$\n')
    os.execute('chmod +x ' .. dies)
    has(run('scripts/run_tests ' .. dies):match '\n# failed: .*', 'the last words')
    assert.is_nil(run('scripts/run_tests ' .. path 'good_spec.lua'):find '# failed')
  end)

  local function script(name, ...)
    write(name, '#!/bin/sh\n' .. table.concat({ ... }, '\n') .. '\n')
    os.execute('chmod +x ' .. path(name))
    return path(name)
  end

  it('runs several at a time, the slow ones first, and shows each in one piece', function()
    -- two wait until both have begun, and the third does not begin before one of them has ended
    local function pair(name, other)
      return script(name, 'echo "ok 1 - a of ' .. name .. '"', 'cd ' .. folder,
        ': >begun_' .. name, 'while ! [ -e begun_' .. other .. ' ]; do sleep 0.1; done',
        'echo "ok 2 - b of ' .. name .. '"', 'echo 1..2')
    end
    pair('one', 'slow')
    pair('slow', 'one')
    script('two', 'cd ' .. folder, '[ -e begun_slow ] || echo not', 'echo "ok 1 - a\n1..1"')
    os.execute(('cd %s && mkdir scripts tests && cp "$OLDPWD/scripts/run_tests" scripts && '
      .. "echo '# a list\n./slow\n./gone' >tests/slowest"):format(folder))
    local text = run(('RIDGE_TEST_LIMIT=60 %s/scripts/run_tests -j 2 ./one ./two ./slow')
      :format(folder))
    for _, name in ipairs { 'one', 'slow' } do
      has(text, ('# ./%s\nok 1 - a of %s\nok 2 - b of %s\n1..2\n'):format(name, name, name))
    end
    assert.is_nil(text:find('not', 1, true), text)
    assert.equal('5 passed, 0 failed', last(text))
    local said, status = run 'scripts/run_tests -j many build/tests/test_base'
    has(said, "-j is a number of files, not 'many'")
    assert.is_true(status ~= 0)
  end)

  it('counts a file whose log is gone, and what tests nothing', function()
    local removes = script('removes', 'rm -r "$(dirname "$RIDGE_TEST_NOW")"',
      'echo "ok 1 - a\n1..1"')
    local good = write('good_spec.lua', GOOD)
    for _, flag in ipairs { '', '-j 2 ' } do
      local text, status = run(('scripts/run_tests %s%s %s'):format(flag, removes, good))
      assert.equal('1 passed, 1 failed', last(text))
      has(text, ('# %s: broken'):format(removes))
      assert.is_true(status ~= 0)
    end
    local text, status = run('scripts/run_tests tests/no_such_folder ' .. good)
    assert.equal('1 passed, 1 failed', last(text))
    has(text, '# tests/no_such_folder: broken')
    assert.is_true(status ~= 0)
    text, status = run 'scripts/run_tests'
    has(text, 'nothing to run')
    assert.is_true(status ~= 0)
  end)

  it('names what hangs beside others', function()
    local quick = script('quick', 'echo "ok 1 - a\n1..1"', ': >' .. path 'done')
    local hangs = script('hangs', 'echo "ok 1 - b"',
      ('while ! [ -e %s ]; do sleep 0.1; done'):format(path 'done'), 'echo $$ >' .. path 'begun',
      'while :; do sleep 1; done')
    local text, status, limit = hung(('-j 2 %s %s'):format(hangs, quick))
    has(text, ('# %s: hangs: no end after %d s'):format(hangs, limit))
    assert.equal('2 passed, 1 failed', last(text))
    assert.is_true(status ~= 0)
    assert.is_false(lives())
  end)

  it('says which files took most time of the processors', function()
    local list = {}
    for i = 1, 10 do list[i] = script('quick' .. i, 'echo "ok 1 - a\n1..1"') end
    list[11] = script('busy', 'i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done',
      'echo "ok 1 - a\n1..1"')
    local text = run('scripts/run_tests -j 2 ' .. table.concat(list, ' '))
    assert.matches('s of CPU time; the slowest:\n# +%d+%.%d s [^\n]*/busy\n', text)
    assert.equal('11 passed, 0 failed', last(text))
  end)

  it('lets tests answer Ctrl-C, and refuses a limit that is none', function()
    local program = write('program', '#!/bin/sh\n'
      .. "sh -c 'kill -INT $$; echo \"not ok 1 - lives on\"'\necho \"ok 1 - ends\n1..1\"\n")
    os.execute('chmod +x ' .. program)
    assert.equal('1 passed, 0 failed', last((run('scripts/run_tests ' .. program))))
    local said, status = run 'RIDGE_TEST_LIMIT=soon scripts/run_tests build/tests/test_base'
    has(said, "RIDGE_TEST_LIMIT is a number of seconds, not 'soon'")
    assert.is_true(status ~= 0)
  end)
end)

describe('the helper', function()
  it("puts Lua's own functions where a test looks first, and no others", function()
    local environment = getfenv(1)
    assert.is_true(environment ~= _G)
    assert.equal(math, rawget(environment, 'math'))
    assert.equal(ipairs, rawget(environment, 'ipairs'))
    assert.is_nil(rawget(environment, 'print'))
    assert.is_nil(rawget(environment, 'it'))
    assert.equal(_G.print, print)
  end)

  it('asks of a rule of sorting that it is an order', function()
    local function sorted(list, before)
      table.sort(list, before)
      return list
    end
    assert.same({ 1, 2, 2, 3 }, sorted({ 2, 3, 1, 2 }, function(a, b) return a < b end))
    assert.same({ 1, 2, 3 }, sorted { 2, 3, 1 })
    assert.same({}, sorted({}, function() return true end))
    for _, before in ipairs { function(a, b) return a <= b end, function() return true end,
      function(a, b) return a ~= b end } do
      local ok, why = pcall(sorted, { 1, 2 }, before)
      assert.is_false(ok)
      assert.matches('a rule of sorting calls an element less than itself', why, 1, true)
    end
  end)
end)

describe('scripts/gpu/sim.sh', function()
  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
    os.execute(('mkdir -p %s/scripts/gpu %s/tests && cp scripts/gpu/sim.sh %s/scripts/gpu && '
      .. 'cp -r tests/op %s/tests'):format(folder, folder, folder, folder))
  end)

  after_each(function() os.execute('rm -r ' .. folder) end)

  -- What is run, one line each, where run_tests only says what it was asked for.
  local function sim(ways, total)
    write('scripts/run_tests', ('#!/bin/sh\necho "$1 ${RIDGE_GPU##*_} ${RIDGE_TEST_EVERY:-}"'
      .. ' "${RG_SIM_ORDER:-}" >>asked\n%s\n'):format(total))
    os.execute(('chmod +x %s/scripts/run_tests'):format(folder))
    local text, status = run(folder .. '/scripts/gpu/sim.sh ' .. ways)
    return (read 'asked' or ''), last(text), status, text
  end

  it('runs every file of every way, the longest first', function()
    local asked, total, status = sim('tsan/20 rev test', 'echo "2 passed, 0 failed"')
    assert.equal('52 passed, 0 failed', total)
    assert.equal(0, status)
    for _, name in ipairs { 'op', 'device', 'layout', 'attention', 'gemm', 'scaled', 'grad',
                           'chain' } do
      has(asked, ('tests/op/%s_spec.lua gpusimtsan.so 20 \n'):format(name))
      has(asked, ('tests/op/%s_spec.lua gpusim.so 1 rev\n'):format(name))
    end
    for _, name in ipairs { 'simtsan', 'sim', 'blas', 'kept', 'dnn', 'fused' } do
      has(asked, ('build/tests/test_%s  '):format(name))
    end
    for _, name in ipairs { 'dnn', 'dnn_plan', 'dnn_due' } do
      has(asked, ('tests/sim/%s_spec.lua gpusim.so'):format(name))
    end
    assert.is_true(asked:find 'op_spec.lua gpusim.so 1 rev' < asked:find 'build/tests/')
  end)

  it('takes cuDNN under the sanitizers that see an index behind the last', function()
    local asked = sim('asan/2', 'echo "1 passed, 0 failed"')
    has(asked, 'tests/sim/dnn_spec.lua gpusimasan.so 2 now\n')
    has(asked, 'tests/op/op_spec.lua gpusimasan.so 2 now\n')
  end)

  it('counts what breaks off without a total, and a way that is not known', function()
    local _, total, status = sim('rev', 'exit 1')
    assert.equal('0 passed, 8 failed', total)
    assert.is_true(status ~= 0)
    local text
    _, total, status, text = sim('zork rev', 'echo "1 passed, 0 failed"')
    assert.equal('8 passed, 1 failed', total)
    assert.is_true(status ~= 0)
    has(text, "no way 'zork'")
    for _, wrong in ipairs { 'rev/0', 'rev/x', 'rev/', 'rev/-1', 'asan/1.5', 'rev/2/3' } do
      local _, said, code, why = sim(wrong, 'echo "1 passed, 0 failed"')
      assert.matches('^0 passed, %d+ failed$', said, wrong)
      assert.is_true(code ~= 0)
      has(why, ("no way '%s'"):format(wrong))
    end
  end)
end)
