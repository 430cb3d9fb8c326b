package paired

import (
	"iter"

	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/judge/quality"
	"sweep.dev/sweep/result"
)

// Columns of the tables.
const (
	deployment     = "deployment"
	server         = "server"
	baseDeployment = "baseline_deployment"
	baseServer     = "baseline"
	verdict        = "verdict"
	pairs          = "pairs"
	becameWrong    = "became_wrong"
	becameRight    = "became_right"
	baseScore      = "base_score"
	score          = "score"
	difference     = "difference"
	low            = "low"
	high           = "high"
	confidenceOf   = "confidence"
	pValue         = "p"
	smallestLoss   = "smallest_loss"
	sameRate       = "same_answer_rate"
	firstMedian    = "first_difference"
	why            = "why"

	item      = "item"
	match     = "match"
	right     = "right"
	refused   = "refused"
	finish    = "finish_reason"
	tokens    = "tokens"
	sameTwice = "same_twice"
	baseRight = "baseline_right"
	change    = "change"
	sameText  = "same_text"
)

// The values of [change].
const (
	becameWrongItem = "became wrong"
	becameRightItem = "became right"
	unchanged       = "unchanged"
)

func column(name string, t result.Type, unit, doc string) result.Column {
	return result.Column{Name: name, Type: t, Unit: unit, Tier: result.Core, Doc: doc}
}

func maybe(name string, t result.Type, unit, doc string) result.Column {
	c := column(name, t, unit, doc)
	c.Nullable = true
	return c
}

// Columns returns those of [Paired.Rows].
func Columns() []result.Column {
	return []result.Column{
		column(deployment, result.String, "", "The deployment, as in the folder deployments."),
		column(server, result.String, "", "Its label."),
		maybe(baseDeployment, result.String, "", "The deployment that it is compared with; null if that has no answers to these prompts, as is every figure then."),
		maybe(baseServer, result.String, "", "Its label."),
		maybe(verdict, result.String, "", "worse, better or cannot tell."),
		maybe(pairs, result.Int, "items", "Prompts with a known score on both sides."),
		maybe(becameWrong, result.Int, "items", "Pairs that only the baseline has right."),
		maybe(becameRight, result.Int, "items", "Pairs that only the deployment has right."),
		maybe(baseScore, result.Float, "ratio", "Share of the pairs that the baseline has right; null for no pairs, as are the next five."),
		maybe(score, result.Float, "ratio", "The same of the deployment."),
		maybe(difference, result.Float, "ratio", "score - base_score: a loss is negative."),
		maybe(low, result.Float, "ratio", "Lower end of its interval (Tango's score interval for pairs)."),
		maybe(high, result.Float, "ratio", "Upper end."),
		maybe(pValue, result.Float, "", "Of the exact McNemar test."),
		maybe(confidenceOf, result.Float, "ratio", "Confidence of the interval: 95 % shared over all rows (Bonferroni)."),
		maybe(smallestLoss, result.Float, "ratio", "Smallest loss that these prompts show 4 times in 5; null if they show none of any size."),
		maybe(sameRate, result.Float, "ratio", "Share of the answers that are the same text on both sides; null for no texts."),
		maybe(firstMedian, result.Float, "characters", "Median position of the first character, from 0, in which the other answers differ; null if none differ."),
		maybe(why, result.String, "", "Why the deployment is not compared."),
	}
}

// Compares reports whether a deployment has a baseline.
func (p *Paired) Compares() bool {
	for i := range p.Servers {
		if len(p.Servers[i].answers.Baseline) > 0 {
			return true
		}
	}
	return false
}

// Rows returns one for each deployment that has a baseline.
func (p *Paired) Rows() iter.Seq[result.Row] {
	return func(yield func(result.Row) bool) {
		for i := range p.Servers {
			s := &p.Servers[i]
			row := result.Row{deployment: s.answers.Deployment, server: plaintext.Line(s.Label)}
			if side := p.sideOf(s); side != nil {
				side.into(row)
			} else if p.uncompared(s) {
				row[why] = noBaseline
			} else {
				continue
			}
			if !yield(row) {
				return
			}
		}
	}
}

// into adds the columns of a side.
func (s *Side) into(row result.Row) {
	f := s.Figures()
	row[baseDeployment], row[baseServer] = s.Baseline.answers.Deployment, plaintext.Line(s.Baseline.Label)
	row[verdict], row[confidenceOf] = f.Verdict, f.Confidence
	row[pairs], row[becameWrong], row[becameRight] = int64(f.Pairs), int64(f.Losses), int64(f.Gains)
	for name, v := range map[string]*float64{
		baseScore: f.Base, score: f.Score, difference: f.Difference, low: f.Low, high: f.High,
		pValue: f.P, smallestLoss: f.Detectable, sameRate: f.SameRate, firstMedian: f.First,
	} {
		if v != nil {
			row[name] = *v
		}
	}
}

// ItemColumns returns those of [Paired.ItemRows].
func ItemColumns() []result.Column {
	return []result.Column{
		column(deployment, result.String, "", "The deployment, as in the folder deployments."),
		column(server, result.String, "", "Its label."),
		column(item, result.String, "", "The prompt: its id in the file, or the number of its line; the doc_id of quality.lm_eval."),
		maybe(match, result.String, "", "How it is scored: exact, contains, number or choice; null if it is not, or with quality.lm_eval."),
		maybe(right, result.Bool, "", "Whether the first answer is right; null if it is not scored, or not known."),
		maybe(refused, result.Bool, "", "Whether the server refused the prompt, which counts as wrong; null with quality.lm_eval."),
		maybe(finish, result.String, "", "finish_reason of the first answer."),
		maybe(tokens, result.Int, "tokens", "Tokens of the first answer, as the server counted them."),
		maybe(sameTwice, result.Bool, "", "Whether the second answer is the same text; null without two answers."),
		maybe(baseDeployment, result.String, "", "The deployment that it is compared with; null for none, as are the next four."),
		maybe(baseRight, result.Bool, "", "Whether the baseline's first answer is right."),
		maybe(change, result.String, "", "became wrong, became right or unchanged; null if a score is not known."),
		maybe(sameText, result.Bool, "", "Whether the first answers of both are the same text; null without both."),
		maybe(firstMedian, result.Int, "characters", "Position of the first character, from 0, in which they differ."),
	}
}

// ItemRows returns one for each prompt of each deployment that has answered. They have no text of an
// answer.
func (p *Paired) ItemRows() iter.Seq[result.Row] {
	return func(yield func(result.Row) bool) {
		for i := range p.Servers {
			s := &p.Servers[i]
			side := p.sideOf(s)
			base := map[string]*quality.Answer{}
			if side != nil {
				list := side.Baseline.answers.List
				for k := range list {
					base[list[k].Item] = &list[k]
				}
			}
			for k := range s.answers.List {
				a := &s.answers.List[k]
				row := s.item(a)
				if side != nil {
					row[baseDeployment] = side.Baseline.answers.Deployment
				}
				if b := base[a.Item]; b != nil {
					against(row, a, b)
				}
				if !yield(row) {
					return
				}
			}
		}
	}
}

// item returns what a deployment answered to a prompt.
func (s *Server) item(a *quality.Answer) result.Row {
	row := result.Row{deployment: s.answers.Deployment, server: plaintext.Line(s.Label), item: plaintext.Line(a.Item)}
	if a.Match != quality.MatchNone {
		row[match] = string(a.Match)
	}
	if a.Right != nil {
		row[right] = *a.Right
	}
	if s.Asked() {
		row[refused] = a.Refused
	}
	if a.Finish != "" {
		row[finish] = plaintext.Line(a.Finish)
	}
	if a.Tokens != nil {
		row[tokens] = int64(*a.Tokens)
	}
	if a.Text != nil && a.Again != nil {
		row[sameTwice] = *a.Text == *a.Again
	}
	return row
}

// against adds what the baseline answered to the same prompt.
func against(row result.Row, a, base *quality.Answer) {
	if base.Right != nil {
		row[baseRight] = *base.Right
	}
	if a.Right != nil && base.Right != nil {
		switch {
		case *a.Right == *base.Right:
			row[change] = unchanged
		case *a.Right:
			row[change] = becameRightItem
		default:
			row[change] = becameWrongItem
		}
	}
	if a.Text != nil && base.Text != nil {
		if row[sameText] = *a.Text == *base.Text; *a.Text != *base.Text {
			row[firstMedian] = int64(quality.FirstDifference(*base.Text, *a.Text))
		}
	}
}
