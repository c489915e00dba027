-- SPDX-License-Identifier: MIT
--- What ranks print reaches who started them: every line, whole, once, behind its rank's number;
--- with mpirun and, played by tests/lua/dist/srun, srun.

local ranks = require 'tests.lua.dist.ranks'
local output = ranks.output

local CHILD = 'tests/lua/dist/lines_child.lua'
local function several(name, f) ranks.several({ it = it, pending = pending }, name, f) end

describe('lines of ranks', function()
  local folder, starters

  setup(function()
    folder = output 'mktemp -d':match '[^\n]+'
    output('ln -s $PWD/tests/lua/dist/srun ' .. folder)
    starters = { mpirun = '', srun = ('PATH=%s:$PATH SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=1 '
      .. 'SLURM_NTASKS=2 '):format(folder) }
  end)
  teardown(function() os.execute('rm -rf ' .. folder) end)

  local function read(name)
    local file = assert(io.open(folder .. '/' .. name, 'rb'))
    local text = file:read '*a'
    file:close()
    return text
  end

  -- What two ranks print, by stream, and the status.
  local function launch(before, what)
    local _, status = output(('{ %s./ridge launch -n 2 %s %s %s/at >%s/out 2>%s/err; }'):format(
      before, CHILD, what, folder, folder, folder))
    return read 'out', read 'err', status
  end

  -- Lines of a rank, in their order.
  local function lines_of(text, rank)
    local list = {}
    for number, line in text:gmatch '%[(%d)%] ([^\n]*)\n' do
      if tonumber(number) == rank then list[#list + 1] = line end
    end
    return list
  end

  several('are whole however many and short they are', function()
    for name, before in pairs(starters) do
      local out, err, status = launch(before, 'many')
      assert.equal(0, status, err)
      for r = 0, 1 do
        local list = lines_of(out, r)
        assert.equal(8000, #list, name)
        for i = 1, 3000 do assert.equal(('a\t%d\tb\t%d'):format(i, i * 2), list[i]) end
        for i = 1, 5000 do assert.equal(tostring(i % 10), list[3000 + i]) end
      end
      local _, n = out:gsub('\n', '')
      assert.equal(16000, n, name)
    end
  end)

  several('are whole however long they are, whatever bytes are in them', function()
    local bytes = {}
    for i = 0, 255 do bytes[#bytes + 1] = i ~= 10 and string.char(i) or nil end
    for name, before in pairs(starters) do
      local out, err, status = launch(before, 'odd')
      assert.equal(0, status)
      for r = 0, 1 do
        local list = lines_of(out, r)
        assert.equal(5, #list, name)
        assert.is_true(list[1] == 'long ' .. ('0123456789abcde\t'):rep(2 ^ 16), name)
        assert.equal('bytes ' .. table.concat(bytes), list[2])
        assert.equal('', list[3])
        assert.equal('parts ' .. ('p'):rep(16384 * 2 - 6), list[4])
        assert.equal('no end', list[5])
        list = lines_of(err, r)
        assert.equal(2, #list, name)
        assert.is_true(list[1] == 'E' .. ('e'):rep(2 ^ 20), name)
        assert.equal('no end of err', list[2])
      end
    end
  end)

  several('of a rank that is killed come before its end is told', function()
    for name, before in pairs(starters) do
      local out, err, status = launch(before, 'killed')
      assert.equal(137, status, name)
      assert.matches('rank [01] was ended by signal 9\n', err)
      local who = tonumber(err:match 'rank ([01]) was')
      local list = lines_of(out, who)
      assert.equal(3901, #list, name)
      for i = 1, 3900 do assert.equal('0123456789abcde', list[i]) end
      assert.equal('cut', list[3901])
    end
  end)

  -- Who reads is slow to the end, so what a rank printed last is in its pipe when it is killed.
  several('of a rank that is killed come to who reads them slowly, too', function()
    local text, status = output(([[sh -c '
      { ./ridge launch -n 1 %s killed %s/at 50000 2>%s/err; echo "code $?" >&2; } |
      { i=0; while [ $i -lt 30 ]; do head -c 32768; sleep 0.02; i=$((i + 1)); done
        cat; } >%s/out']])
      :format(CHILD, folder, folder, folder))
    assert.equal(0, status, text)
    assert.equal('code 137\n', text)
    assert.equal(50001, #lines_of(read 'out', 0))
  end)

  several('of what ranks have started come, too, behind their end as well', function()
    for name, before in pairs(starters) do
      local out, err, status = launch(before, 'children')
      assert.equal(0, status, err)
      for r = 0, 1 do
        assert.same({ 'child', 'rank', 'later' }, lines_of(out, r), name)
        assert.same({ 'child of err' }, lines_of(err, r), name)
      end
    end
  end)

  several('wait for who reads them slowly, and ranks with them; nobody is lost', function()
    local text, status = output(([[sh -c '
      { ./ridge launch -n 2 --silence 2 %s much %s/at; echo "code $?" >&2; } 2>%s/err |
      { sleep 5; cp %s/at0 %s/early; cat >%s/out; }']]):format(CHILD, folder, folder, folder,
      folder, folder))
    assert.equal(0, status, text)
    assert.equal('code 0\n', read 'err')
    -- 40000 lines, of which pipes and the launcher hold a few thousand
    local early = tonumber(read 'early')
    assert.is_true(early > 100 and early < 12000, early)
    local out = read 'out'
    for r = 0, 1 do
      local list = lines_of(out, r)
      assert.equal(40000, #list)
      for i = 1, 40000 do
        if list[i] ~= ('%06d\t'):format(i) .. ('x'):rep(100) then error(list[i]) end
      end
    end
  end)

  several('that a full disk does not take are missed, in words and in the status', function()
    local text, status = output(('{ ./ridge launch -n 2 %s many %s/at >/dev/full; }'):format(CHILD,
      folder))
    assert.equal(1, status)
    assert.matches('ridge launch: what ranks print cannot be written: No space left on device\n',
      text, 1, true)
  end)

  several('that find standard output closed are missed, and why is said', function()
    local text, status = output(('{ ./ridge launch -n 2 %s many %s/at 2>&1 >&-; }'):format(CHILD,
      folder))
    assert.equal(1, status)
    assert.matches('ridge launch: what ranks print cannot be written: it is closed\n', text, 1,
      true)
  end)

  several('that nobody reads any more end the job, as they end any program', function()
    local text, status = output(([[sh -c '
      { ./ridge launch -n 2 %s forever %s/at; echo "code $?" >&2; } | head -n 1 >%s/out']]):format(
      CHILD, folder, folder))
    assert.equal(0, status, text)
    assert.matches('^code 141\n$', text)
    while ranks.left(CHILD .. ' forever') > 0 do os.execute 'sleep 0.1' end -- for ever, if it lives
  end)

  several('that nobody reads keep nobody from ending them', function()
    os.remove(folder .. '/at0')
    os.remove(folder .. '/at1')
    local text, status = output(([[sh -c '
      mkfifo %s/fifo; exec 4<>%s/fifo
      ./ridge launch -n 2 %s forever %s/at >%s/fifo & it=$!
      while ! [ -e %s/at0 -a -e %s/at1 ]; do sleep 0.1; done
      sleep 1; kill -INT $it; wait $it']]):format(folder, folder, CHILD, folder, folder, folder,
      folder))
    assert.equal(130, status, text)
    assert.matches('interrupted: all ranks have ended', text)
    assert.equal(0, ranks.left(CHILD .. ' forever'))
  end)
end)
