-- SPDX-License-Identifier: MIT
-- What the report of a landscape says of the forms of fixed signs, from rows written by hand.
local report = require 'ridge.report.landscape'

local function row(form, terms, fwd, grade)
  return { layer = 'sketched', dtype = 'f32', form = form, num_terms = terms, low_rank = 8,
    state = 'ok', grade = grade or 'A', fwd = fwd, fwd_lo = fwd - 1, fwd_hi = fwd + 1 }
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

  it('keeps one row a point, of the fastest form', function()
    local forms = {}
    for i, kept in ipairs(report.faster_forms(rows)) do forms[i] = kept.form end
    assert.same({ 'seed', 'seed', 'seed' }, forms)
  end)
end)
