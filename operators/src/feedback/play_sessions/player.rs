//! One session: a user who looks for a class, and a method that chooses what to show.
//!
//! The user's judgements depend on the user and the object alone, so every method meets the same user.

use std::str::FromStr;

use boxwork_kernels::chance::{Random, mix};
use boxwork_kernels::gaussian_process::{MARK_NOISE, Model, Posterior, WEAK_NOISE};
use boxwork_kernels::interrupt::Interrupt;
use boxwork_runtime::operator::BoxError;

use super::matrix::{Objects, Table};

/// How the objects of a round are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Random,
    Nearest,
    Mean,
    Ucb,
    Bucb,
}

impl Method {
    pub(super) const NAMES: &[&str] = &["random", "nearest", "gp_mean", "gp_ucb", "gp_bucb"];
    const ALL: [Self; 5] = [Self::Random, Self::Nearest, Self::Mean, Self::Ucb, Self::Bucb];

    pub(super) fn name(self) -> &'static str {
        let place = Self::ALL.iter().position(|method| *method == self);
        place.map_or("", |place| Self::NAMES[place])
    }
}

impl FromStr for Method {
    type Err = BoxError;

    fn from_str(name: &str) -> Result<Self, BoxError> {
        let place = Self::NAMES.iter().position(|known| *known == name);
        place
            .map(|place| Self::ALL[place])
            .ok_or_else(|| BoxError::new(format!("there is no method `{name}`")))
    }
}

/// The beginning of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    Query,
    Random,
    Spread,
}

impl FromStr for First {
    type Err = BoxError;

    fn from_str(name: &str) -> Result<Self, BoxError> {
        match name {
            "query" => Ok(Self::Query),
            "random" => Ok(Self::Random),
            "spread" => Ok(Self::Spread),
            _ => Err(BoxError::new(format!("a session does not begin with `{name}`"))),
        }
    }
}

/// The settings that all users share.
#[derive(Clone, Debug)]
pub(super) struct Protocol {
    pub(super) rounds: usize,
    pub(super) batch: usize,
    /// Objects among which a model chooses, if sketches bound them.
    pub(super) rerank: usize,
    pub(super) explore: f64,
    pub(super) first: First,
    pub(super) flips: f64,
    pub(super) clicks: f64,
    pub(super) is_weak: bool,
    pub(super) rare: Option<usize>,
    pub(super) seed: u64,
}

/// The finds of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Objects shown up to the first relevant one, or one more than were to be shown.
    pub(super) first: u32,
    /// Up to the tenth.
    pub(super) tenth: u32,
    /// Relevant objects among those shown, after each round.
    pub(super) found: Vec<u32>,
}

/// The number of relevant objects that [`Outcome::tenth`] waits for.
const TENTH: u32 = 10;

/// Plays a session; nothing if the caller interrupts.
pub(super) fn play(
    method: Method,
    protocol: &Protocol,
    objects: &Objects,
    table: &Table,
    (class, user): (usize, usize),
    interrupt: Interrupt<'_>,
) -> Option<Outcome> {
    let seed = mix(protocol.seed ^ mix(((class as u64) << 32) + user as u64));
    let mut session = Session::new(method, protocol, table, seed);
    let user = User::new(protocol, &objects.classes[class].1, table.objects, seed, &mut session);
    let never = (protocol.rounds * protocol.batch + 1) as u32;
    let mut outcome = Outcome { first: never, tenth: never, found: Vec::with_capacity(protocol.rounds) };
    let (mut shown, mut relevant) = (0, 0);
    for round in 0..protocol.rounds {
        if interrupt() {
            return None;
        }
        let picks = session.round(round);
        for pick in &picks {
            shown += 1;
            relevant += u32::from(user.is_relevant[*pick]);
            let is_new = user.is_relevant[*pick];
            if is_new && relevant == 1 {
                outcome.first = shown;
            }
            if is_new && relevant == TENTH {
                outcome.tenth = shown;
            }
        }
        outcome.found.push(relevant);
        session.judge(&picks, |object| user.judgement(object));
    }
    Some(outcome)
}

/// A user: what is relevant, and how it is judged.
struct User<'a> {
    protocol: &'a Protocol,
    is_relevant: Vec<bool>,
    seed: u64,
}

impl<'a> User<'a> {
    /// A user of a class, who has judged the first object, if the session begins with one.
    fn new(
        protocol: &'a Protocol,
        members: &[usize],
        objects: usize,
        seed: u64,
        session: &mut Session<'_>,
    ) -> Self {
        let mut random = Random::mixed(seed ^ 0x7573_6572);
        let mut members = members.to_vec();
        if let Some(rare) = protocol.rare.filter(|rare| *rare < members.len()) {
            random.shuffle(&mut members);
            members[rare..].iter().for_each(|hidden| session.hide(*hidden));
            members.truncate(rare);
            members.sort_unstable();
        }
        let mut is_relevant = vec![false; objects];
        members.iter().for_each(|member| is_relevant[*member] = true);
        if protocol.first == First::Query {
            let query = members[random.idx(members.len())];
            session.hide(query);
            session.mark(query, 1.0, MARK_NOISE);
            is_relevant[query] = false;
        }
        Self { protocol, is_relevant, seed }
    }

    /// The relevance and noise of an object that was shown, if the user's judgement, or its lack, counts.
    fn judgement(&self, object: usize) -> Option<(f64, f64)> {
        let mut random = Random::mixed(self.seed ^ mix(object as u64 + 1));
        let (flip, click) = (random.unit() < self.protocol.flips, random.unit() < self.protocol.clicks);
        let likes = self.is_relevant[object] != flip;
        match likes {
            true if click => Some((1.0, MARK_NOISE)),
            false if self.protocol.clicks >= 1.0 => Some((0.0, MARK_NOISE)),
            _ => self.protocol.is_weak.then_some((0.0, WEAK_NOISE)),
        }
    }
}

/// The state of a session.
struct Session<'a> {
    method: Method,
    protocol: &'a Protocol,
    table: &'a Table,
    random: Random,
    /// Objects that were shown or are not there.
    hidden: Vec<bool>,
    marks: Vec<usize>,
    model: Model,
    posterior: Posterior,
    /// The distance of each object from the nearest liked one.
    nearest: Vec<f64>,
    /// Of each object the largest k^2 / (1 + noise) of a mark, by sketches.
    reached: Vec<f64>,
    /// Objects that are no candidates of the round, if sketches bound them.
    outside: Vec<bool>,
}

impl<'a> Session<'a> {
    fn new(method: Method, protocol: &'a Protocol, table: &'a Table, seed: u64) -> Self {
        Self {
            method,
            protocol,
            table,
            random: Random::mixed(seed ^ 0x7363_7265_656e),
            hidden: vec![false; table.objects],
            marks: Vec::new(),
            model: Model::new(),
            posterior: Posterior::new(table.objects),
            nearest: vec![f64::INFINITY; table.objects],
            reached: vec![0.0; table.objects],
            outside: vec![false; table.objects],
        }
    }

    fn hide(&mut self, object: usize) {
        self.hidden[object] = true;
    }

    fn mark(&mut self, object: usize, score: f64, noise: f64) {
        match self.method {
            Method::Random => {}
            Method::Nearest => {
                if score >= 0.5 {
                    let distances = self.table.distances(object);
                    self.nearest
                        .iter_mut()
                        .zip(distances)
                        .for_each(|(nearest, d)| *nearest = nearest.min(*d));
                }
            }
            Method::Mean | Method::Ucb | Method::Bucb => {
                let row = self.table.covariances(object);
                let left: Vec<f64> = self.marks.iter().map(|mark| row[*mark]).collect();
                self.model.push(&left, score, noise);
                if self.method != Method::Mean {
                    self.posterior.push(self.model.factor_row(self.marks.len()), row);
                }
                self.marks.push(object);
                if self.table.is_sketched() {
                    let bounding = self.table.bounding(object).iter();
                    self.reached
                        .iter_mut()
                        .zip(bounding)
                        .for_each(|(reached, k)| *reached = reached.max(k * k / (1.0 + noise)));
                }
            }
        }
    }

    /// Takes the judgements of a round.
    fn judge(&mut self, picks: &[usize], judgement: impl Fn(usize) -> Option<(f64, f64)>) {
        for pick in picks {
            if let Some((score, noise)) = judgement(*pick) {
                self.mark(*pick, score, noise);
            }
        }
    }

    /// Chooses the objects of a round and hides them from now on.
    fn round(&mut self, round: usize) -> Vec<usize> {
        self.outside.fill(false);
        let picks = match (round, self.protocol.first) {
            (0, First::Random) => self.by_chance(),
            (0, First::Spread) => self.spread(),
            _ => match self.method {
                Method::Random => self.by_chance(),
                Method::Nearest if self.nearest.iter().all(|distance| distance.is_infinite()) => {
                    self.by_chance()
                }
                Method::Nearest => self.largest(|session, object| -session.nearest[object]),
                Method::Mean | Method::Ucb | Method::Bucb => self.by_model(),
            },
        };
        picks.iter().for_each(|pick| self.hidden[*pick] = true);
        picks
    }

    fn eligible(&self) -> Vec<usize> {
        (0..self.table.objects).filter(|object| self.may(*object)).collect()
    }

    /// Whether an object may be shown in this round.
    fn may(&self, object: usize) -> bool {
        !self.hidden[object] && !self.outside[object]
    }

    /// Leaves the candidates of the round, if sketches bound the objects: by chance before the first mark, and those of the
    /// largest bounds then.
    fn bound(&mut self, explore: f64, weights: &[f64]) {
        if !self.table.is_sketched() {
            return;
        }
        let mut eligible = self.eligible();
        let left = self.protocol.rerank.min(eligible.len());
        if self.marks.is_empty() {
            self.random.shuffle(&mut eligible);
        } else {
            let mut uppers = vec![0.0; self.table.objects];
            for (mark, weight) in self.marks.iter().zip(weights) {
                let bounding = self.table.bounding(*mark).iter();
                uppers.iter_mut().zip(bounding).for_each(|(upper, k)| *upper += weight * k);
            }
            for (upper, reached) in uppers.iter_mut().zip(&self.reached) {
                *upper += explore * (1.0 - reached).max(0.0).sqrt();
            }
            eligible.sort_unstable_by(|a, b| uppers[*b].total_cmp(&uppers[*a]).then(a.cmp(b)));
        }
        eligible[left..].iter().for_each(|object| self.outside[*object] = true);
    }

    fn by_chance(&mut self) -> Vec<usize> {
        let eligible = self.eligible();
        let places = self.random.distinct(eligible.len() as u64, self.protocol.batch);
        places.into_iter().map(|place| eligible[place as usize]).collect()
    }

    /// The objects of the largest scores; of equal ones, those that come first.
    fn largest(&self, score: impl Fn(&Self, usize) -> f64) -> Vec<usize> {
        let mut scored: Vec<(f64, usize)> =
            self.eligible().into_iter().map(|object| (score(self, object), object)).collect();
        scored.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.into_iter().take(self.protocol.batch).map(|(_, object)| object).collect()
    }

    /// A first screen by variance alone, from a random object.
    fn spread(&mut self) -> Vec<usize> {
        self.bound(1.0, &[]);
        let eligible = self.eligible();
        if eligible.is_empty() {
            return eligible;
        }
        let first = eligible[self.random.idx(eligible.len())];
        let mut posterior = Posterior::new(self.table.objects);
        self.batch(&mut posterior, 1.0, Some(first))
    }

    fn by_model(&mut self) -> Vec<usize> {
        let is_blind = self.model.scores().iter().all(|score| *score == 0.0);
        let explore = if is_blind { 1.0 } else { self.protocol.explore };
        let weights = self.model.weights();
        self.bound(explore, &weights);
        if is_blind && self.method == Method::Mean {
            // Means say nothing, so the deviation decides, as with the method of the product.
            let mut posterior = Posterior::new(self.table.objects);
            for (mark, object) in self.marks.iter().enumerate() {
                posterior.push(self.model.factor_row(mark), self.table.covariances(*object));
            }
            return self.largest(|_, object| posterior.variance(object));
        }
        // Taken out, so that the session can be read meanwhile.
        let mut posterior = std::mem::replace(&mut self.posterior, Posterior::new(0));
        posterior.set_means(&weights, |mark| self.table.covariances(self.marks[mark]));
        let picks = match self.method {
            Method::Bucb => {
                let picks = self.batch(&mut posterior, explore, None);
                posterior.truncate(self.marks.len());
                picks
            }
            Method::Ucb => self.largest(|_, object| posterior.upper(object, explore)),
            _ => self.largest(|_, object| posterior.mean(object)),
        };
        self.posterior = posterior;
        picks
    }

    /// Picks with hallucinated variances.
    fn batch(&self, posterior: &mut Posterior, explore: f64, first: Option<usize>) -> Vec<usize> {
        let mut picks = Vec::with_capacity(self.protocol.batch);
        while picks.len() < self.protocol.batch {
            let may = |object: usize| self.may(object) && !picks.contains(&object);
            let best = first.filter(|_| picks.is_empty()).or_else(|| posterior.pick(explore, may));
            let Some(pick) = best else { break };
            picks.push(pick);
            if picks.len() < self.protocol.batch {
                posterior.hallucinate(pick, self.table.covariances(pick), MARK_NOISE);
            }
        }
        picks
    }
}
