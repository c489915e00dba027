-- SPDX-License-Identifier: MIT
-- What the report of a landscape says, from rows written by hand, and that the picture of the same
-- rows says the same.
local report = require 'ridge.report.landscape'
local ridge = require 'ridge'

local SHAPE = { n_in = 128, n_out = 64, batch = 8 }

local function row(form, terms, fwd, grade)
  return { layer = 'sketched', dtype = 'f32', form = form, num_terms = terms, low_rank = 8,
    state = 'ok', grade = grade or 'A', fwd = fwd, fwd_lo = fwd - 1, fwd_hi = fwd + 1 }
end

local function says(text, what)
  assert.is_truthy(text:find(what, 1, true), ('%q is not in:\n%s'):format(what, text))
end

describe('the report of a landscape', function()
  local rows = { row('stored', 1, 100), row('bits', 1, 90), row('seed', 1, 80),
    row('stored', 2, 100), row('bits', 2, 101), row('seed', 2, 80),
    row('stored', 3, 100), row('bits', 3, 120), row('seed', 3, 50, 'D') }

  it('counts where each form is faster than stored signs', function()
    local said = report.verdict(rows, { n_in = 64, n_out = 64 })
    assert.is_truthy(said:find('bits take .- faster than stored ones at 1 of 3 points%.'), said)
    assert.is_truthy(said:find('from a seed .- faster than stored ones at 2 of 2 points%.'), said)
    said = report.verdict({ rows[1], rows[2] }, { n_in = 64, n_out = 64 })
    assert.is_nil(said:find('seed', 1, true))
  end)

  it('counts no form as faster whose interval touches that of stored signs', function()
    local near = { row('stored', 1, 100), row('bits', 1, 99), row('stored', 2, 100),
      row('bits', 2, 97) }
    says(report.verdict(near, { n_in = 64, n_out = 64 }),
      'faster than stored ones at 1 of 2 points')
  end)

  it('compares by passes where both have them, and nothing that was disturbed', function()
    local a, b = row('bits', 1, 100), row('bits', 2, 200)
    assert.equal('disturbed', report.against(a, row('bits', 2, 200, 'D')))
    assert.equal('disturbed', report.against(row('bits', 2, 20, 'D'), a))
    assert.equal('faster', report.against(a, b))
    -- the passes go before the medians of the windows
    a.fwd_by_pass, b.fwd_by_pass = '110 111 112 113 114 115 116', '100 101 102 103 104 105 106'
    assert.equal('slower', report.against(a, b))
    assert.equal('faster', report.against(b, a))
    a.fwd_by_pass, b.fwd_by_pass = '80 130 80 130 80 130 80', '100 100 100 100 100 100 100'
    assert.equal('open', report.against(a, b)) -- 0.8 in the middle, and beyond 1
    assert.equal('open', report.against(b, a))
    a.fwd_by_pass = b.fwd_by_pass -- all ratios are 1, and so are both ends
    assert.equal('open', report.against(a, b))
    a.fwd_by_pass = '80 - 80' -- too few for an interval
    assert.equal('open', report.against(a, b))
  end)

  it('has in its table what was measured, each number in its column', function()
    local one = { layer = 'dense', dtype = 'f32', state = 'ok', grade = 'B', fwd = 4000,
      fwd_lo = 3900, fwd_hi = 4200, fwd_mean = 5000, fwd_p95 = 6000, fwd_p99 = 7000,
      param_count = 10, stored_bytes = 4096, peak_bytes = 3 * 2 ^ 20, fwd_gflops = 500,
      fwd_gbps = 2.5, rel_error = 0.25, fwd_flops = 2e6 }
    local machine = { ceilings = { { name = 'fma.f32', value = 1e12 } }, threads = 1 }
    local share, name = report.roof(one, machine)
    assert.same({ 0.5, 'compute' }, { share, name }) -- 2 us of 4
    local text = report.table(report.rows({ one }, SHAPE), machine)
    local cells = {}
    for word in text:match('\ndense.*'):gmatch '%S+' do cells[#cells + 1] = word end
    assert.same({ 'dense', 'f32', '10', '4', '3.00', '0.0050', '4', '3.9', '..', '4.2', '6', '7',
      '2e+06', '500', '2.5', '50', 'compute', '0.250', 'B' }, cells)
    -- and above it which times these are, where there are any
    assert.matches('^times are medians %(med%), the machine as it is%.\n', text)
    assert.is_nil(report.table(report.rows({}, SHAPE), machine):find('times are', 1, true))
  end)

  it('says once what kept several points from being measured', function()
    local function failed(state, reason)
      return { layer = 'sketched', dtype = 'f32', num_terms = 1, low_rank = 8, state = state,
        reason = reason }
    end
    local text = report.table { failed('oom', '12 MB more'), failed('timeout'),
      failed('oom', '900 MB more') }
    says(text, '2 not measured, oom: 12 MB more, and so on')
    assert.matches('1 not measured, timeout$', text)
  end)

  it('keeps one row a point, of the fastest form that was not disturbed', function()
    local function forms(of)
      local list = {}
      for i, kept in ipairs(report.faster_forms(of)) do list[i] = kept.form end
      return list
    end
    assert.same({ 'seed', 'seed', 'stored' }, forms(rows))
    assert.same({ 'bits' }, forms { row('stored', 1, 9, 'D'), row('bits', 1, 8, 'D') })
    local failed = { layer = 'sketched', dtype = 'f32', form = 'seed', num_terms = 1, low_rank = 8,
      state = 'oom' }
    assert.same({ 'bits' }, forms { failed, row('bits', 1, 8, 'D') })
  end)
end)

describe('a landscape measured under load', function()
  -- of six sketched points: 2 faster, 1 slower, 1 open, 2 disturbed, which look faster
  local function sketched()
    local list = { row('bits', 1, 50), row('bits', 2, 60), row('bits', 3, 200), row('bits', 4, 100),
      row('bits', 5, 40, 'D'), row('bits', 6, 45, 'D') }
    return list
  end
  local function dense(grade, dtype, fwd)
    fwd = fwd or 100
    return { layer = 'dense', dtype = dtype or 'f32', state = 'ok', grade = grade, fwd = fwd,
      fwd_lo = fwd - 1, fwd_hi = fwd + 1, flags = grade == 'D' and 'FOREIGN PRESSURE' or '' }
  end
  local function filled(rows)
    for _, each in ipairs(rows) do
      each.fwd_mean, each.param_count, each.stored_bytes, each.peak_bytes = each.fwd, 10, 40, 99
      each.fwd_p95, each.fwd_p99, each.fwd_gflops, each.fwd_gbps, each.rel_error = each.fwd,
        each.fwd, 1, 1, 0.5
    end
    return report.rows(rows, SHAPE)
  end

  it('is counted alike by the text and by the picture', function()
    local rows = sketched()
    rows[#rows + 1] = dense 'B'
    rows = filled(rows)
    says(report.verdict(rows, SHAPE), 'f32: sketched beats dense at 2 of 4 points, all with k = '
      .. '2*T*R below 43 (1 undecided, 2 disturbed and left out).')
    assert.matches('at 2 of 4 points', ridge.plot.landscape(rows, {}).finding)
  end)

  it('has no verdict of a disturbed row in its table', function()
    local rows = sketched()
    rows[#rows + 1] = dense 'B'
    local text = report.table(filled(rows))
    assert.is_truthy(text:find '%f[%d]2%.00x faster', text)
    assert.is_truthy(text:find '%f[%d]0%.50x slower', text)
    assert.is_truthy(text:find '%f[%d]2%.50x disturbed', text)
    assert.is_nil(text:find '2%.50x faster', text)
  end)

  it('says that the dense layer was disturbed, and claims nothing of it', function()
    local rows = sketched()
    rows[#rows + 1] = dense 'D'
    rows = filled(rows)
    local said = report.verdict(rows, SHAPE)
    says(said, 'f32: the dense layer was disturbed (grade D: FOREIGN PRESSURE), so nothing is '
      .. 'compared with it; --new measures again.')
    assert.is_nil(said:find('beats', 1, true))
    assert.is_nil(ridge.plot.landscape(rows, {}).finding)
    -- its own row is in the table all the same, and no ratio to it
    assert.matches('\ndense    f32 ', report.table(rows))
    assert.is_nil(report.table(rows):find('x faster', 1, true))
  end)

  it('tells a dense layer that failed from one that is not in the sweep', function()
    local rows = sketched()
    rows[#rows + 1] = { layer = 'dense', dtype = 'f32', state = 'oom' }
    says(report.verdict(rows, SHAPE), 'f32: the dense layer was not measured (oom)')
    says(report.verdict(sketched(), SHAPE), 'f32: there is no dense layer to compare with.')
  end)

  it('compares two dense layers only where neither was disturbed, with an interval', function()
    local rows = filled { dense('A', 'f32', 100), dense('B', 'bf16', 50), row('bits', 1, 20),
      row('bits', 2, 30, 'D') }
    says(report.verdict(rows, SHAPE), 'dense bf16 takes 0.50 [0.49 .. 0.52] of the time of dense '
      .. 'f32; 1 of 1 f32 sketches are faster than it (1 disturbed and left out).')
    rows[2].grade = 'D'
    assert.is_nil(report.verdict(rows, SHAPE):find('of the time of dense', 1, true))
  end)

  it('compares equal bytes though the dense layer was disturbed', function()
    local said = report.verdict(filled { dense 'D', row('bits', 1, 20), row('bits', 2, 50, 'D'),
      { layer = 'lowrank', dtype = 'f32', rank = 16, state = 'ok', grade = 'A', fwd = 40,
        fwd_lo = 39, fwd_hi = 41 } }, SHAPE)
    says(said, 'f32: at equal bytes, sketched is faster than low-rank at 1 of 1 points, and nearer '
      .. 'to the dense weight at 0.')
  end)
end)
